"""Graph connectivity: are two vertices joined?"""
