"""What single inputs do not tell: what heads are worth, which are alike, and what sets two models apart."""
