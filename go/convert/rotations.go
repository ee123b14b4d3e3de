package convert

// ropeOf returns the settings of rotations, of layers of a kind where kinds have their own.
func (c *config) ropeOf(kind string) *config {
	r := c.within("rope_parameters rope_scaling")
	c.take(r)
	if part := r.within(kind); part.m != nil {
		return part
	}
	return r
}

// theta returns the base of the rotations' frequencies, 0 if nothing says it.
func (c *config) theta() float64 {
	r := c.ropeOf("full_attention")
	defer c.take(r)
	if r.has("rope_theta") {
		return r.number("rope_theta")
	}
	return c.numberOr("global_rope_theta rope_global_theta rope_theta_global rope_theta rotary_emb_base", 0)
}

// partial returns how much of a head rotates.
func (c *config) partial(otherwise float64) float64 {
	r := c.ropeOf("full_attention")
	defer c.take(r)
	if r.has("partial_rotary_factor") {
		return r.number("partial_rotary_factor")
	}
	return c.numberOr("partial_rotary_factor rotary_pct rope_pct", otherwise)
}
