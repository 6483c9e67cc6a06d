"""A playbook as one shell script for those who may not let a program touch their hosts."""
