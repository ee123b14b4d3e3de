package llamaserver

import (
	"strconv"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/tokenizer"
)

// tokenizerInfo describes a tokenizer as vLLM does, in the words of tokenizer_config.json: what clients need that make
// prompts themselves.
type tokenizerInfo struct {
	Class       string                `json:"tokenizer_class"`
	BOS         *string               `json:"bos_token"`
	EOS         *string               `json:"eos_token"`
	Unknown     *string               `json:"unk_token"`
	Pad         *string               `json:"pad_token"`
	AddBOS      bool                  `json:"add_bos_token"`
	AddEOS      bool                  `json:"add_eos_token"`
	Max         int                   `json:"model_max_length"`
	Template    string                `json:"chat_template"`
	Special     []string              `json:"additional_special_tokens"`
	AddedTokens map[string]addedToken `json:"added_tokens_decoder"` // by id
}

// addedToken is a token that a text may name.
type addedToken struct {
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	SingleWord bool   `json:"single_word"`
	Normalized bool   `json:"normalized"`
}

func (s *API) tokenizerInfo(req *answer.Request) error {
	m := req.Model
	t := m.Tokenizer
	named := func(id int32, ok bool) *string {
		if !ok {
			return nil
		}
		text := t.Token(id)
		return &text
	}
	info := tokenizerInfo{
		Class: "PreTrainedTokenizerFast", BOS: named(t.BOS()), EOS: named(t.EOS()), AddBOS: t.AddBOS(), AddEOS: t.AddEOS(),
		Max: m.Ctx, Template: m.Template.Source(), Special: []string{}, AddedTokens: map[string]addedToken{},
	}
	if id, ok := m.Metadata.Value("tokenizer.ggml.padding_token_id"); ok {
		if id, ok := id.(uint32); ok && int(id) < t.Len() {
			info.Pad = named(int32(id), true)
		}
	}
	for id := range int32(t.Len()) {
		switch kind := t.TokenType(id); kind {
		case tokenizer.Unknown:
			info.Unknown = named(id, true)
		case tokenizer.Control, tokenizer.UserDefined:
			special := kind == tokenizer.Control
			info.AddedTokens[strconv.Itoa(int(id))] = addedToken{Content: t.Token(id), Special: special}
			if special {
				info.Special = append(info.Special, t.Token(id))
			}
		}
	}
	req.Send(info)
	return nil
}
