"""From measurements to a scenario: loads, costs, exchanges, options and cores of the job."""
