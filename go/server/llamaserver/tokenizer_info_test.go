package llamaserver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Clients of vLLM that make their own prompts ask for the tokenizer, and have it used for them.
func TestTokenizerOfVLLM(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	_, b, _ := s.Do("GET", "/tokenizer_info", "")
	info := fake.Parse[struct {
		Class    string `json:"tokenizer_class"`
		BOS      string `json:"bos_token"`
		EOS      string `json:"eos_token"`
		Template string `json:"chat_template"`
		Max      int    `json:"model_max_length"`
		AddBOS   bool   `json:"add_bos_token"`
		Added    map[string]struct {
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens_decoder"`
	}](t, b)
	type encoded struct {
		Tokens []int32  `json:"tokens"`
		Texts  []string `json:"token_strs"`
		Count  int      `json:"count"`
		Max    int      `json:"max_model_len"`
	}
	bare := fake.Post[encoded](s, "/tokenize", `{"prompt":"Once upon","add_special_tokens":false}`)
	whole := fake.Post[encoded](s, "/tokenize", `{"prompt":"Once upon","return_token_strs":true}`)
	native := fake.Post[encoded](s, "/tokenize", `{"content":"Once upon"}`)
	bos := fake.Post[encoded](s, "/tokenize", `{"prompt":"`+info.BOS+`","add_special_tokens":false}`)
	if info.Class == "" || info.EOS == "" || !info.AddBOS || info.Max != 1024 ||
		!strings.Contains(info.Template, "messages") || !info.Added["0"].Special || info.Added["0"].Content != info.BOS {
		t.Errorf("%s", b)
	}
	if len(bos.Tokens) != 1 || !slices.Equal(whole.Tokens, append(bos.Tokens, bare.Tokens...)) ||
		!slices.Equal(native.Tokens, bare.Tokens) {
		t.Errorf("with BOS %v, without %v, BOS %v, of llama-server's request %v", whole.Tokens, bare.Tokens, bos.Tokens,
			native.Tokens)
	}
	if whole.Count != len(whole.Tokens) || whole.Max != 1024 || len(whole.Texts) != whole.Count ||
		whole.Texts[0] != info.BOS || bare.Texts != nil {
		t.Errorf("%+v, %+v", whole, bare)
	}
	ids, _ := json.Marshal(bare.Tokens)
	if got := fake.Post[struct{ Prompt, Content string }](s, "/detokenize",
		`{"tokens":`+string(ids)+`}`); got.Prompt != got.Content || !strings.Contains(got.Prompt, "Once upon") {
		t.Errorf("%+v", got)
	}
	s.Refused("/tokenize", `{"prompt":"a","content":"b"}`, 400, "prompt")
	s.Refused("/tokenize", `{}`, 400, "content")
}
