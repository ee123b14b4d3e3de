package family

import "github.com/quern-llm/quern/go/convert/lang"

// indexed is the index that chooses the positions a layer attends to.
var indexed = lang.Rules{
	{"self_attn.indexer.wk", "indexer.attn_k", nil},
	{"self_attn.indexer.wq_b", "indexer.attn_q_b", nil},
	{"self_attn.indexer.k_norm", "indexer.k_norm", nil},
	{"self_attn.indexer.weights_proj", "indexer.proj", nil},
}

// indexKeys sets the sizes of the index.
func indexKeys(k *lang.Keys) {
	k.N("attention.indexer.head_count", k.Count("index_n_heads"))
	k.N("attention.indexer.key_length", k.Count("index_head_dim"))
	k.N("attention.indexer.top_k", k.Count("index_topk"))
}
