"""Co-simulation: builds and runs rings of nodes in a Verilog simulator, driven by the runtime."""
