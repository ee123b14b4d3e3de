package convert

// indexed is what chooses the positions that a layer attends to.
var indexed = rules{
	{"self_attn.indexer.wk", "indexer.attn_k", nil},
	{"self_attn.indexer.wq_b", "indexer.attn_q_b", nil},
	{"self_attn.indexer.k_norm", "indexer.k_norm", nil},
	{"self_attn.indexer.weights_proj", "indexer.proj", nil},
}

func indexKeys(k *keys) {
	k.n("attention.indexer.head_count", k.count("index_n_heads"))
	k.n("attention.indexer.key_length", k.count("index_head_dim"))
	k.n("attention.indexer.top_k", k.count("index_topk"))
}
