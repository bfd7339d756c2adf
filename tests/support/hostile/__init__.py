"""What a user can do to the program by accident or malice, generated: small doses as tests, the full count by
`benchmarks/faults.py`.
"""
