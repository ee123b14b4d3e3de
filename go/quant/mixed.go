package quant

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// is reports whether the mix has one of these names.
func (r *recipe) is(names ...string) bool { return slices.Contains(names, r.mix.Name) }

// some selects the layers whose errors matter most: the first and the last eighth, and every third between.
func some(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

func pick(c bool, yes, no gguf.Type) gguf.Type {
	if c {
		return yes
	}
	return no
}

// layer returns the layer of a tensor of which each layer has one: the i-th, or the one of its name where experts may lie
// in any order.
func (r *recipe) layer(t *gguf.Tensor, i int) (int, error) {
	if r.nExpert <= 1 {
		return i, nil
	}
	if i = LayerOf(t.Name); i < 0 || i >= r.nLayer {
		return 0, fmt.Errorf("no layer of 0 to %d in its name", r.nLayer-1)
	}
	return i, nil
}

// mixed returns the type of a matrix in the mix, whether its rows fit or not.
func (r *recipe) mixed(t *gguf.Tensor, role role) (gguf.Type, error) {
	base := r.mix.Base
	switch {
	case role == output || role == embed && r.tied:
		return r.ofOutput(int(t.Dims[0])), nil
	case r.is("MXFP4_MOE"):
		experts := len(t.Dims) > 2 && t.Dims[2] > 1
		if r.arch == "bailingmoe3" {
			experts = experts && (role == ffnUp || role == ffnGate || role == ffnDown)
		}
		return pick(experts, gguf.MXFP4, gguf.Q8_0), nil
	case role == embed:
		switch {
		case r.is("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M", "IQ2_KT", "IQ1_KT"):
			return gguf.Q2_K, nil
		case r.is("IQ2_S", "IQ2_M", "IQ3_XXS"):
			return gguf.IQ3_S, nil
		case r.is("TQ1_0", "TQ2_0", "Q2_0"):
			return gguf.Q4_K, nil
		}
		return base, nil
	case r.is("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M", "IQ2_KT", "IQ1_KT"):
		return r.ofTwoBits(role), nil
	}
	switch role {
	case attnV, attnQKV, attnKVB:
		return r.ofValues(), nil
	case attnK, attnQ:
		switch {
		case role == attnK && r.nExpert == 8:
			return gguf.Q8_0, nil
		case r.is("IQ3_XS"):
			return gguf.IQ3_XXS, nil
		case r.is("IQ3_XXS"):
			return gguf.IQ2_S, nil
		}
	case ffnDown:
		i, err := r.layer(t, r.iDown)
		r.iDown++
		return r.ofDown(i), err
	case attnOut:
		return r.ofAttnOut(), nil
	case ffnGate, ffnUp:
		count := &r.iUp
		if role == ffnGate {
			count = &r.iGate
		}
		i, err := r.layer(t, *count)
		*count++
		return pick(r.is("IQ3_XS") && i >= r.nLayer/8 && i < 7*r.nLayer/8, gguf.IQ3_XXS, base), err
	}
	return base, nil
}

// ofOutput returns the type of the output matrix of rows of n weights.
func (r *recipe) ofOutput(n int) gguf.Type {
	switch {
	case r.Output != nil:
		return *r.Output
	case r.is("MXFP4_MOE", "Q8_0") || r.arch == "falcon" || n%r.mix.Base.BlockElems() != 0:
		return gguf.Q8_0
	case r.is("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ1_S", "IQ1_M", "IQ2_KT", "IQ1_KT"):
		return gguf.Q5_K
	}
	return gguf.Q6_K
}

// ofTwoBits returns the types of the mixes of less than three bits.
func (r *recipe) ofTwoBits(role role) gguf.Type {
	more := pick(r.is("IQ2_S", "IQ2_M"), gguf.IQ3_S, pick(r.is("IQ2_KT", "IQ1_KT"), gguf.IQ3_KT, gguf.Q2_K))
	switch role {
	case attnV, attnQKV, attnKVB:
		return pick(r.nGroup >= 4 || r.nExpert >= 4, gguf.Q4_K, more)
	case attnK:
		return pick(r.nExpert == 8, gguf.Q4_K, r.mix.Base)
	case ffnDown:
		i := r.iDown
		r.iDown++
		return pick(i < r.nLayer/8, more, r.mix.Base)
	case attnOut:
		switch {
		case r.nExpert == 8:
			return gguf.Q5_K
		case r.is("IQ1_S", "IQ1_M"):
			return gguf.IQ2_XXS
		case r.is("IQ1_KT"):
			return gguf.IQ2_KT
		case r.is("IQ2_S", "IQ2_M"):
			return gguf.IQ3_S
		}
	}
	return r.mix.Base
}

// ofValues returns the type of the next matrix of values, or of queries, keys and values in one.
func (r *recipe) ofValues() gguf.Type {
	i, t, grouped := r.iAttnV, r.mix.Base, r.nGroup >= 4
	r.iAttnV++
	switch {
	case r.is("Q2_K"):
		t = pick(grouped, gguf.Q4_K, gguf.Q3_K)
	case r.is("Q2_K_S", "IQ3_XS", "IQ3_S", "IQ3_KT"):
		t = pick(grouped, gguf.Q4_K, t)
	case r.is("IQ3_XXS"):
		t = pick(grouped, gguf.Q4_K, pick(r.Importance == nil, gguf.IQ3_S, gguf.IQ3_XXS))
	case r.is("IQ3_M"):
		t = gguf.Q4_K
	case r.is("Q3_K_M"):
		t = pick(i < 2, gguf.Q5_K, gguf.Q4_K)
	case r.is("Q3_K_L"):
		t = gguf.Q5_K
	case r.is("IQ4_NL", "IQ4_XS", "IQ4_KT"):
		t = pick(grouped, gguf.Q5_K, t)
	case r.is("Q4_K_M", "Q5_K_M"):
		t = pick(some(i, r.nAttnV), gguf.Q6_K, t)
	case r.is("Q4_K_S"):
		t = pick(i < 4, gguf.Q5_K, t)
	}
	if r.large && (t == gguf.Q3_K || t == gguf.Q4_K) {
		t = gguf.Q5_K // few values for many queries
	}
	return pick(r.nExpert == 8, gguf.Q8_0, t) // small beside the experts
}

// ofDown returns the type of the feed-forward network's second matrix in layer i.
func (r *recipe) ofDown(i int) gguf.Type {
	n, t, falcon := r.nLayer, r.mix.Base, r.arch == "falcon"
	switch {
	case r.is("Q2_K"):
		return gguf.Q3_K
	case r.is("Q2_K_S"):
		return pick(i < n/8, gguf.Q4_K, t)
	case r.is("IQ3_XXS") && r.Importance == nil:
		return pick(i < n/8, gguf.Q4_K, gguf.Q3_K)
	case r.is("Q3_K_M"):
		return pick(i < n/16, gguf.Q5_K, pick(!falcon || some(i, n), gguf.Q4_K, gguf.Q3_K))
	case r.is("IQ3_M"):
		return pick(i < n/8 || r.nExpert == 8 && some(i, n), gguf.Q4_K, t)
	case r.is("Q3_K_L"):
		return pick(falcon, gguf.Q4_K, gguf.Q5_K)
	case r.is("Q4_K_M") && falcon:
		return pick(i < n/16, gguf.Q6_K, pick(some(i, n), gguf.Q5_K, gguf.Q4_K))
	case r.is("Q4_K_M", "Q5_K_M"):
		return pick(some(i, n), gguf.Q6_K, t)
	case r.is("IQ4_NL", "IQ4_XS") && r.Importance == nil, r.is("Q4_K_S") && !falcon:
		return pick(i < n/8, gguf.Q5_K, t)
	case r.is("Q4_0", "Q5_0") && r.Importance != nil:
		return pick(i < n/8, pick(r.is("Q4_0"), gguf.Q4_1, gguf.Q5_1), t)
	}
	return t
}

// ofAttnOut returns the type of the matrix after attention.
func (r *recipe) ofAttnOut() gguf.Type {
	switch {
	case r.arch == "falcon":
		return pick(r.is("Q3_K_L"), gguf.Q4_K, r.mix.Base)
	case r.nExpert == 8:
		return pick(r.is("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS"),
			gguf.Q5_K, r.mix.Base)
	case r.is("Q2_K"):
		return gguf.Q3_K
	case r.is("IQ3_XXS"):
		return gguf.IQ3_S
	case r.is("Q3_K_M", "IQ3_M"):
		return gguf.Q4_K
	case r.is("Q3_K_L"):
		return gguf.Q5_K
	}
	return r.mix.Base
}
