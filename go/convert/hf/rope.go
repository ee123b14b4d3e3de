package hf

// RopeOf returns the settings of rotary position embeddings; those for layers of a kind, if each kind has its own.
func (c *Config) RopeOf(kind string) *Config {
	r := c.Within("rope_parameters rope_scaling")
	c.Take(r)
	if part := r.Within(kind); part.m != nil {
		return part
	}
	return r
}

// Theta returns the base of the rotations' frequencies, 0 if there is no value.
func (c *Config) Theta() float64 {
	r := c.RopeOf("full_attention")
	defer c.Take(r)
	if r.Has("rope_theta") {
		return r.Number("rope_theta")
	}
	return c.NumberOr("global_rope_theta rope_global_theta rope_theta_global rope_theta rotary_emb_base", 0)
}

// Partial returns the share of a head's channels that rotate, or otherwise if there is no value.
func (c *Config) Partial(otherwise float64) float64 {
	r := c.RopeOf("full_attention")
	defer c.Take(r)
	if r.Has("partial_rotary_factor") {
		return r.Number("partial_rotary_factor")
	}
	return c.NumberOr("partial_rotary_factor rotary_pct rope_pct", otherwise)
}
