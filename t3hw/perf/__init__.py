"""The paper's experiment at the scale of real models: machines, slices of them, and reports."""
