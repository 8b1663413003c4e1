"""The pages of docs/reference, and the tables of other pages, as the code itself tells them."""
