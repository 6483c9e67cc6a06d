"""Cases from public reports with their expected answers, and what compares ours with them."""
