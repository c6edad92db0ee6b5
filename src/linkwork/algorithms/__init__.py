"""The paper's algorithms, one a file, on the nodes of an SKO model, over numbers or symbols."""
