# The CUDA backend, or its absence: without nvcc the same symbols say that CUDA is unavailable.
carat_layer(cuda USES engine)
