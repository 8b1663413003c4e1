"""Models, personalised objectives, and the gradients of whole cohorts."""
