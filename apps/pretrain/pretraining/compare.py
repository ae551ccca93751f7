def run(trainer, begun): pass
