"""What producers do: GEMMs cut into tiles and stores, and inputs to run them on."""
