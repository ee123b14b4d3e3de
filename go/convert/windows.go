package convert

// windowShare returns how much of a head rotates in layers with a window.
func windowShare(c *config) float64 {
	r := c.ropeOf("sliding_attention")
	defer c.take(r)
	return r.numberOr("partial_rotary_factor", 1)
}

// windowsApart sets which layers have a window, where these rotate by settings of their own.
func windowsApart(k *keys) {
	rotating(k, 1)
	if k.countOr("sliding_window", 0) == 0 {
		return
	}
	k.n("attention.sliding_window", k.count("sliding_window"))
	k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
	k.n("rope.dimension_count_swa", int(float64(k.headDim())*windowShare(k.config)))
}
