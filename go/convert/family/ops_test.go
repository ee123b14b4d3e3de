package family

import (
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/internal/optest"
	"github.com/quern-llm/quern/go/convert/lang"
)

// TestOps compares operations with their definitions, element by element.
func TestOps(t *testing.T) {
	c := new(hf.Config).Part(map[string]any{
		"num_attention_heads": 2., "qk_nope_head_dim": 2., "v_head_dim": 3., "linear_num_key_heads": 2.,
		"linear_num_value_heads": 4., "linear_key_head_dim": 1., "linear_value_head_dim": 2., "pad_token_id": 1.,
	})
	optest.Check(t, c, []optest.Case{
		{"keys and values", keysValues, optest.Counted(10, 4), []optest.Made{
			{[]uint64{2, 4, 2}, func(i, j, k uint64) uint64 { return (5*k+j)*4 + i }},
			{[]uint64{2, 3, 4}, func(i, j, k uint64) uint64 { return (5*k+2+i)*4 + j }},
		}},
		{"tile", tile(0, valueDim), optest.Counted(8, 3), []optest.Made{{[]uint64{8, 3}, func(i, j, _ uint64) uint64 { // heads 0 1 of the first, 2 3 of the second
			h, d := i/2, i%2
			return (h%2*4+h/2*2+d)*3 + j
		}}}},
		{"tile columns", tile(1, valueDim), optest.Counted(3, 8), []optest.Made{{[]uint64{3, 8}, func(i, j, _ uint64) uint64 {
			h, d := j/2, j%2
			return 8*i + h%2*4 + h/2*2 + d
		}}}},
		{"tile values", tileValues, optest.Counted(12, 3), []optest.Made{{[]uint64{12, 3}, func(i, j, _ uint64) uint64 {
			if i < 4 {
				return 3*i + j
			}
			h, d := (i-4)/2, (i-4)%2
			return (4+h%2*4+h/2*2+d)*3 + j
		}}}},
		{"queries, keys, values and gates", queriesKeysValuesGates, optest.Counted(20, 3), []optest.Made{ // by head: q k v v v v z z z z
			{[]uint64{12, 3}, func(i, j, _ uint64) uint64 {
				switch {
				case i < 2:
					return i*10*3 + j
				case i < 4:
					return ((i-2)*10+1)*3 + j
				}
				return ((i-4)/4*10+2+(i-4)%4)*3 + j
			}},
			{[]uint64{8, 3}, func(i, j, _ uint64) uint64 { return (i/4*10+6+i%4)*3 + j }},
		}},
		{"threes", threes, optest.Counted(12, 3), []optest.Made{{[]uint64{12, 3}, func(i, j, _ uint64) uint64 { // of 2 heads of 2
			part, h, d := i/4, i%4/2, i%2
			return (6*h+2*part+d)*3 + j
		}}}},
		{"from a token on", fromPad, optest.Counted(5, 3), []optest.Made{{[]uint64{3, 3}, func(i, j, _ uint64) uint64 { return (i+2)*3 + j }}}},
	})
}

// TestOpsRefuse gives operations shapes that they do not fit.
func TestOpsRefuse(t *testing.T) {
	optest.Refuses(t, new(hf.Config).Part(map[string]any{
		"num_attention_heads": 3., "linear_num_key_heads": 2., "linear_num_value_heads": 3.,
	}), map[string]lang.Op{
		"keysValues": keysValues, "tile": tile(0, headOne), "tileValues": tileValues, "threes": threes,
		"queriesKeysValuesGates": queriesKeysValuesGates, "packed": packed, "groups": groups,
	})
}
