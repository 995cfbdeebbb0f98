"""What the cost models say, beside what is measured; joins that tune themselves by them."""
