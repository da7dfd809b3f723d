"""What results, comparisons, recommendations and imported jobs show in a notebook."""
