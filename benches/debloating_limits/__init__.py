"""What debloating cannot do, measured, and what other mechanisms do there."""
