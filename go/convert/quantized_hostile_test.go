package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// caseOf returns a copy of the case of a name.
func caseOf(tb testing.TB, name string) quantizedCase {
	tb.Helper()
	_, cases := quantizedCases(tb)
	i := slices.IndexFunc(cases, func(c quantizedCase) bool { return c.Name == name })
	if i < 0 {
		tb.Fatalf("no case %q", name)
	}
	return cases[i]
}

// changed replaces the description of a tensor; a nil one is left out.
func (c *quantizedCase) changed(tb testing.TB, name string, to []any) {
	tb.Helper()
	i := slices.IndexFunc(c.Tensors, func(t []any) bool { return t[0] == name })
	if i < 0 {
		tb.Fatalf("no tensor %q", name)
	}
	if to == nil {
		c.Tensors = slices.Delete(c.Tensors, i, i+1)
		return
	}
	c.Tensors[i] = append([]any{name}, to...)
}

// described returns a description of a tensor after its name.
func described(text string) (all []any) {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte("["+text+"]"), &all); err != nil {
		panic(err)
	}
	return all
}

// TestQuantizedRefused breaks a quantized checkpoint in several ways. Each is an error of one line that names the fault.
func TestQuantizedRefused(t *testing.T) {
	const o = "@self_attn.o_proj" // of 64 rows and columns
	for _, c := range []struct {
		of           string
		tensor, to   string    // its description after the change; empty: it is left out
		config       [2]string // what is replaced in config.json
		want         []string
		whileWriting bool
	}{
		{of: "gptq", tensor: o + ".qweight", to: `"I32", [7, 64], "words"`, want: []string{"o_proj.qweight", "[7 64]"}},
		{of: "gptq", tensor: o + ".qweight", to: `"I32", [0, 64], "words"`, want: []string{"o_proj.qweight"}},
		{of: "gptq", tensor: o + ".qweight", to: `"F32", [8, 64], "noise", 1, 0`, want: []string{"o_proj.qweight", "F32", "I32"}},
		{of: "gptq", tensor: o + ".qweight", to: `"I32", [512], "words"`, want: []string{"o_proj.qweight", "two dimensions"}},
		{of: "gptq", tensor: o + ".qweight", to: `"I32", [8, 96], "words"`, want: []string{"o_proj.scales", "[2 96]"}},
		{of: "gptq", tensor: o + ".qzeros", to: `"I32", [2, 7], "words"`, want: []string{"o_proj.qzeros", "[2 8]"}},
		{of: "gptq", tensor: o + ".qzeros", want: []string{"o_proj.qzeros", "missing"}},
		{of: "gptq", tensor: o + ".scales", want: []string{"o_proj.scales", "missing"}},
		{of: "gptq", tensor: o + ".scales", to: `"F16", [3, 64], "noise", 1, 0`, want: []string{"o_proj.scales", "[2 64]"}},
		{of: "gptq", tensor: o + ".scales", to: `"F32", [2, 64], "noise", 0, 3e38`, want: []string{"finite"}, whileWriting: true},
		{of: "gptq", tensor: o + ".g_idx", to: `"I32", [64], "group", 16, 1`, want: []string{"o_proj.g_idx", "group 2"}},
		{of: "gptq", tensor: o + ".g_idx", to: `"I32", [64], "fill", 4294967295`, want: []string{"o_proj.g_idx", "-1"}},
		{of: "gptq", tensor: o + ".g_idx", to: `"I32", [60], "group", 32, 1`, want: []string{"o_proj.qweight", "60 columns"}},
		{of: "gptq", tensor: o + ".g_idx", to: `"F32", [64], "noise", 1, 0`, want: []string{"o_proj.g_idx", "F32"}},
		{of: "gptq", tensor: "@mlp.down_proj.qweight", want: []string{"down_proj.qweight", "missing"}},
		{of: "gptq", config: [2]string{`"bits":4`, `"bits":5`}, want: []string{"config.json", "5 bits"}},
		{of: "gptq", config: [2]string{`"bits":4`, `"bits":"four"`}, want: []string{"config.json", "bits"}},
		{of: "gptq", config: [2]string{`"group_size":32`, `"group_size":48`}, want: []string{"scales", "48 of"}},
		{of: "gptq", config: [2]string{`"group_size":32`, `"group_size":0`}, want: []string{"config.json", "group_size"}},
		{of: "gptq", config: [2]string{`"gptq"}`, `"gptq_v3"}`}, want: []string{"config.json", "gptq_v3"}},
		{of: "gptq", config: [2]string{`"LlamaForCausalLM"`, `"GPT2LMHeadModel"`}, want: []string{"gpt2", "gptq"}},
		{of: "awq", config: [2]string{`"bits":4`, `"bits":3`}, want: []string{"config.json", "3 bits"}},
		{of: "awq", config: [2]string{`"group_size":32`, `"group_size":40`}, want: []string{"columns", "40"}},
		{of: "awq", config: [2]string{`"gemm"`, `"gemv_fast"`}, want: []string{"config.json", "gemv_fast"}},
		{of: "awq", tensor: o + ".scales", to: `"F16", [2, 60], "noise", 1, 0`, want: []string{"o_proj.scales", "[2 64]"}},
		{of: "awq", tensor: o + ".qzeros", to: `"I32", [1, 8], "words"`, want: []string{"o_proj.qzeros", "[2 8]"}},
		{of: "awq by rows", tensor: o + ".qzeros", to: `"I32", [64, 0], "words"`, want: []string{"o_proj.qzeros"}},
		{of: "awq by rows", tensor: o + ".scales", to: `"F16", [64, 1], "noise", 1, 0`, want: []string{"o_proj.scales", "2 groups"}},
		{of: "compressed-tensors", config: [2]string{`"pack-quantized"`, `"marlin-24"`}, want: []string{"config.json", "marlin-24"}},
		{of: "compressed-tensors", config: [2]string{`"num_bits":4`, `"num_bits":2`}, want: []string{"weight_packed", "config.json"}},
		{of: "compressed-tensors", config: [2]string{`"ignore"`, `"sparsity_config":{"format":"sparse-24-bitmask"},"ignore"`},
			want: []string{"config.json", "sparse-24-bitmask"}},
		{of: "compressed-tensors", config: [2]string{`"ignore"`, `"transform_config":{"config_groups":{"u":{}}},"ignore"`},
			want: []string{"config.json", "rotations"}},
		{of: "compressed-tensors", config: [2]string{`{"group_0"`, `{"a":7,"group_0"`}, want: []string{"config.json", "7"}},
		{of: "compressed-tensors", tensor: o + ".weight_shape", want: []string{"o_proj.weight_shape", "missing"}},
		{of: "compressed-tensors", tensor: o + ".weight_shape", to: `"I64", [2], "list", 64, -64`, want: []string{"o_proj.weight_shape"}},
		{of: "compressed-tensors", tensor: o + ".weight_shape", to: `"I64", [2], "list", 64, 72`, want: []string{"8 words for 72"}},
		{of: "compressed-tensors", tensor: o + ".weight_scale", to: `"BF16", [64, 3], "noise", 1, 0`, want: []string{"o_proj.weight_scale"}},
		{of: "compressed-tensors", tensor: o + ".weight_scale", want: []string{"o_proj.weight_scale", "missing"}},
		{of: "compressed-tensors with zeros", tensor: o + ".weight_zero_point", want: []string{"o_proj.weight_packed", "config.json"}},
		{of: "compressed-tensors with zeros", tensor: o + ".weight_zero_point", to: `"I32", [7, 2], "words"`,
			want: []string{"o_proj.weight_zero_point", "2 groups"}},
		{of: "compressed-tensors with an index", tensor: o + ".weight_g_idx", to: `"I32", [64], "span", 1, 2`,
			want: []string{"o_proj.weight_g_idx", "group 2"}},
		{of: "compressed-tensors of 8 bits", tensor: o + ".weight_scale", to: `"BF16", [], "noise", 0, 1`, want: nil},
		{of: "compressed-tensors NVFP4", tensor: o + ".weight_scale", to: `"F8_E4M3", [64, 3], "words"`, want: []string{"o_proj.weight_scale"}},
		{of: "compressed-tensors NVFP4", tensor: o + ".weight_global_scale", to: `"F32", [2], "noise", 1, 0`,
			want: []string{"o_proj.weight_global_scale", "one number"}},
		{of: "compressed-tensors NVFP4", tensor: o + ".weight_global_scale", to: `"F32", [1], "noise", 0, 0`,
			want: []string{"finite"}, whileWriting: true},
		{of: "compressed-tensors MXFP4", tensor: o + ".weight_packed", to: `"U8", [64, 24], "words"`, want: []string{"o_proj", "48 columns"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight.absmax", to: `"F32", [63], "noise", 1, 0`, want: []string{"weight.absmax", "[64]"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight.quant_map", want: []string{"weight.quant_map", "missing"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight", to: `"U8", [2047, 1], "words"`, want: []string{"o_proj.weight", "2047 bytes"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight", want: []string{"o_proj.weight", "missing"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight.quant_state.bitsandbytes__nf4", to: `"U8", [2], "text", "{]"`, want: []string{"nf4"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight.quant_state.bitsandbytes__nf4",
			to:   `"U8", [50], "text", "{\"quant_type\":\"nf4\",\"blocksize\":0,\"shape\":[64,64]}"`,
			want: []string{"nf4", "blocks of 0"}},
		{of: "bitsandbytes nf4", tensor: o + ".weight.quant_state.bitsandbytes__nf4",
			to:   `"U8", [67], "text", "{\"quant_type\":\"nf4\",\"blocksize\":64,\"shape\":[4294967296,4294967296]}"`,
			want: []string{"nf4", "shape"}},
		{of: "bitsandbytes nf4, nested", tensor: o + ".weight.nested_absmax", to: `"F32", [2], "noise", 1, 0`, want: []string{"nested_absmax"}},
		{of: "bitsandbytes int8", tensor: o + ".SCB", to: `"F32", [63], "noise", 1, 0`, want: []string{"o_proj.SCB", "[64]"}},
		{of: "bitsandbytes int8", tensor: o + ".SCB", want: []string{"o_proj.SCB", "missing"}},
		{of: "bitsandbytes int8", tensor: o + ".weight_format", to: `"U8", [], "list", 2`, want: []string{"o_proj.weight_format"}},
		{of: "bitnet", tensor: o + ".weight_scale", to: `"BF16", [2], "noise", 1, 0`, want: []string{"o_proj.weight_scale", "one number"}},
		{of: "bitnet", tensor: o + ".weight", to: `"U8", [64, 256], "fill", 255`, want: []string{"integer 3"}, whileWriting: true},
		{of: "bitnet", config: [2]string{`"bitlinear"`, `"trilinear"`}, want: []string{"config.json", "trilinear"}},
	} {
		name := fmt.Sprint(c.of, " ", c.tensor, " ", c.to, c.config)
		made, dir := caseOf(t, c.of), t.TempDir()
		if c.tensor != "" {
			made.changed(t, c.tensor, described(c.to))
		}
		if was := string(made.Config); !strings.Contains(was, c.config[0]) {
			t.Errorf("%s: config.json has no %s", name, c.config[0])
		} else {
			made.Config = json.RawMessage(strings.Replace(was, c.config[0], c.config[1], 1))
		}
		made.write(t, dir)
		m, err := Open(dir, Options{Threads: 1})
		if c.whileWriting && err == nil {
			_, err = m.WriteFile(t.Context(), filepath.Join(t.TempDir(), "model.gguf"), false)
		}
		if m != nil {
			m.Close()
		}
		if c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.want != nil {
			refused(t, name, err, c.want...)
		}
	}
}

// TestUnknownMethods refuses checkpoints of methods that are not read, by name.
func TestUnknownMethods(t *testing.T) {
	for _, method := range strings.Fields(`aqlm auto-round eetq fbgemm_fp8 fp_quant gguf higgs hqq metal modelopt quanto quark
spqr torchao vptq`) {
		c, dir := caseOf(t, "gptq"), t.TempDir()
		c.Config = json.RawMessage(strings.Replace(string(c.Config), `"quant_method":"gptq"`, `"quant_method":"`+method+`"`, 1))
		c.write(t, dir)
		_, err := Open(dir, Options{})
		refused(t, method, err, "config.json", "quantized by "+method+" ")
	}
}

// FuzzQuantized reads checkpoints of each method whose settings and headers are arbitrary. They become a file, or an error of
// one line.
func FuzzQuantized(f *testing.F) {
	_, cases := quantizedCases(f)
	dir := f.TempDir()
	for _, c := range cases {
		c.write(f, dir)
		config, weights := must(os.ReadFile(filepath.Join(dir, "config.json"))), must(os.ReadFile(filepath.Join(dir, "model.safetensors")))
		f.Add(config, weights)
	}
	f.Fuzz(func(t *testing.T, config, weights []byte) {
		save(t, dir, "config.json", string(config))
		save(t, dir, "model.safetensors", string(weights))
		m, err := Open(dir, Options{Threads: 1})
		if err == nil {
			defer m.Close()
			if m.Size() > 1<<24 {
				return
			}
			_, err = m.WriteFile(t.Context(), filepath.Join(dir, "model.gguf"), true)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q is no line", err)
		}
	})
}
