"""Pictures of results, for papers and slides.

picture.py  a result to the bytes of a PNG, SVG or PDF file
panels.py   panels, grids of cells, legends and captions, of which each picture is made
scores.py   the map, scores, layers and profiles
weights.py  heads' weights for one input
studies.py  ablation, similarity, comparison, syntax and trace
"""
