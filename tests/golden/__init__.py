"""Fits of every learner, policy, loss, sampler and categorical method, whose bytes are known."""
