package synth

import "cmp"

// metadata sets the keys that engines need to load the model.
func (m Model) metadata(set func(key string, value any)) {
	m.settings(set)
	if m.Shape.Sight == nil {
		m.Shape.tokenizer(set)
	}
}

// settings sets the keys of the architecture.
func (m Model) settings(set func(key string, value any)) {
	s := m.Shape
	set("general.architecture", s.Arch)
	set("general.type", "model")
	set("general.name", "synthetic "+s.Name)
	set("general.description", "random weights, for measuring speed")
	set("general.file_type", m.Mix.Kind)
	set("general.quantization_version", uint32(2))

	if s.Sight != nil {
		s.Sight.settings(s, set)
		return
	}
	p := s.Arch + "."
	blocks := s.NLayer
	if s.MTP {
		blocks++
		set(p+"nextn_predict_layers", uint32(1))
	}
	set(p+"block_count", uint32(blocks))
	set(p+"context_length", uint32(s.NCtx))
	set(p+"embedding_length", uint32(s.NEmbd))
	if s.separate() {
		set(p+"feed_forward_length", s.each(feedForwardLayer, s.NFF))
	} else {
		set(p+"feed_forward_length", uint32(cmp.Or(s.NFFDense, s.NFF)))
	}
	if r := s.RWKV; r != nil {
		r.metadata(func(key string, value any) { set(p+key, value) })
		return
	}
	set(p+"attention.head_count", uint32(s.NHead))
	if s.Pattern != "" {
		set(p+"attention.head_count_kv", s.each(attentionLayer, s.NHeadKV))
	} else {
		set(p+"attention.head_count_kv", uint32(s.NHeadKV))
	}
	set(p+"attention.key_length", uint32(s.HeadDim))
	set(p+"attention.value_length", uint32(s.valueDim()))
	set(p+"attention.layer_norm_rms_epsilon", s.RMSEps)
	if s.RopeTheta > 0 {
		set(p+"rope.dimension_count", uint32(cmp.Or(s.NRot, s.HeadDim)))
		set(p+"rope.freq_base", s.RopeTheta)
	}
	set(p+"vocab_size", uint32(s.NVocab))
	if s.NExpert > 0 {
		set(p+"expert_count", uint32(s.NExpert))
		set(p+"expert_used_count", uint32(s.NUsed))
		set(p+"expert_feed_forward_length", uint32(s.NFF))
	}
	if s.Window > 0 {
		set(p+"attention.sliding_window", uint32(s.Window))
	}
	if s.YaRN > 0 {
		set(p+"rope.scaling.type", "yarn")
		set(p+"rope.scaling.factor", float32(s.YaRN))
		set(p+"rope.scaling.original_context_length", uint32(s.NCtxOrig))
	}
	if s.NFFShared > 0 {
		set(p+"expert_shared_feed_forward_length", uint32(s.NFFShared))
	}
	if s.NDense > 0 {
		set(p+"leading_dense_block_count", uint32(s.NDense))
	}
	if s.NTap > 0 {
		set(p+"shortconv.l_cache", uint32(s.NTap))
		set(p+"expert_gating_func", uint32(2))
	}
	if l := s.Latent; l != nil {
		set(p+"expert_shared_count", uint32(1))
		set(p+"expert_gating_func", uint32(2))
		set(p+"expert_weights_norm", true)
		set(p+"expert_weights_scale", l.Scale)
		set(p+"attention.q_lora_rank", uint32(l.QueryRank))
		set(p+"attention.kv_lora_rank", uint32(l.Rank))
		set(p+"attention.key_length_mla", uint32(l.Plain+l.Rotated))
		set(p+"attention.value_length_mla", uint32(l.Value))
	}
	if d := s.Delta; d != nil {
		set(p+"full_attention_interval", uint32(attentionEvery))
		set(p+"ssm.conv_kernel", uint32(d.NTap))
		set(p+"ssm.state_size", uint32(d.Dim))
		set(p+"ssm.group_count", uint32(d.NHeadKey))
		set(p+"ssm.time_step_rank", uint32(d.NHead))
		set(p+"ssm.inner_size", uint32(d.NHead*d.Dim))
		if s.Vocab == qwen35 {
			set(p+"rope.dimension_sections", []int32{11, 11, 10, 0})
		}
	}
	if g := s.Gemma; g != nil {
		g.metadata(s, func(key string, value any) { set(p+key, value) })
	}
	if c := s.Scan; c != nil {
		set(p+"rope.scaling.finetuned", false) // no rotations
		set(p+"ssm.conv_kernel", uint32(c.NTap))
		set(p+"ssm.state_size", uint32(c.State))
		if c.Rank > 0 {
			set(p+"ssm.time_step_rank", uint32(c.Rank))
		} else {
			set(p+"ssm.group_count", uint32(c.NGroup))
			set(p+"ssm.time_step_rank", uint32(c.NHead))
		}
		set(p+"ssm.inner_size", uint32(c.inner()))
		if s.ReLU2 { // Nemotron: its experts are weighed as DeepSeek's
			set(p+"attention.layer_norm_epsilon", s.RMSEps)
			set(p+"expert_shared_count", uint32(1))
			set(p+"expert_group_count", uint32(1))
			set(p+"expert_group_used_count", uint32(1))
			set(p+"expert_weights_norm", true)
		}
	}
	for _, f := range s.Scales {
		set(p+f.Key, f.Value)
	}
}

// each returns n for the layers of a kind, and 0 for the others.
func (s *Shape) each(kind byte, n int) []int32 {
	all := make([]int32, s.NLayer)
	for i := range all {
		if s.kind(i) == kind {
			all[i] = int32(n)
		}
	}
	return all
}
