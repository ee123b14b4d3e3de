package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestEndsOfFamilies has the special tokens of the vocabularies of families, and which of them their models end a reply with,
// by their templates: the token that files name as EOS, and those that only their text tells.
func TestEndsOfFamilies(t *testing.T) {
	for _, tt := range []struct{ family, eos, tokens, ends string }{
		{"Qwen 3.5, 3.8", "<|im_end|>", "<|endoftext|> <|im_start|> <|im_end|> <think> </think> <tool_call> </tool_call> <|fim_prefix|> <|fim_pad|> <|repo_name|> <|file_sep|>", "<|endoftext|> <|im_end|> <|fim_pad|> <|repo_name|> <|file_sep|>"},
		{"gpt-oss", "<|return|>", "<|startoftext|> <|endoftext|> <|return|> <|constrain|> <|channel|> <|start|> <|end|> <|message|> <|call|>", "<|endoftext|> <|return|> <|call|>"},
		{"Gemma 3", "<eos>", "<pad> <eos> <bos> <start_of_turn> <end_of_turn> </s>", "<eos> <end_of_turn> </s>"},
		{"Gemma 4", "<eos>", "<pad> <eos> <bos> <|turn> <turn|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> </s>", "<eos> <turn|> <|tool_response>"},
		{"GLM 4.5 to 5", "<|endoftext|>", "<|endoftext|> [MASK] <|system|> <|user|> <|assistant|> <|observation|>", "<|endoftext|>"},
		{"Kimi K2", "[EOS]", "[BOS] [EOS] <|im_end|> <|im_user|> <|im_assistant|> [EOT] [PAD] [UNK]", "[EOS] <|im_end|> [EOT] [PAD]"},
		{"DeepSeek V3, V4", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cbegin\u2581of\u2581sentence\uff5c> <\uff5cend\u2581of\u2581sentence\uff5c> <\uff5cUser\uff5c> <|EOT|>", "<\uff5cend\u2581of\u2581sentence\uff5c> <|EOT|>"},
		{"Mistral", "</s>", "<unk> <s> </s> [INST] [/INST] [TOOL_CALLS]", "</s>"},
		{"Kimi K3", "[EOS]", "[BOS] [EOS] <|end_of_msg|> <|open|> <|close|> <|sep|> [PAD]", "[EOS] <|end_of_msg|> [PAD]"},
		{"Llama 4", "<|eot|>", "<|begin_of_text|> <|end_of_text|> <|header_start|> <|header_end|> <|eom|> <|eot|> <|step|> <|python_end|>", "<|end_of_text|> <|eom|> <|eot|>"},
		{"dots.llm1", "<|endoftext|>", "<|endoftext|> <|userprompt|> <|endofuserprompt|> <|response|> <|endofresponse|>", "<|endoftext|> <|endofresponse|>"},
		{"Llama 3", "<|eot_id|>", "<|begin_of_text|> <|end_of_text|> <|eom_id|> <|eot_id|> <|start_header_id|>", "<|end_of_text|> <|eom_id|> <|eot_id|>"},
		{"Phi 4", "<|endoftext|>", "<|endoftext|> <|user|> <|end|> <|assistant|>", "<|endoftext|> <|end|>"},
		{"MiniMax M2, M3", "[e~[", "]!p~[ [e~[ ]~b] <think> </think>", "[e~["},
		{"Solar Open", "<|end|>", "<|begin|> <|end|> <|flush|> <|calls|> <|content|>", "<|end|> <|flush|> <|calls|>"},
		{"Granite 4", "<|end_of_text|>", "<|end_of_text|> <|start_of_role|> <|end_of_role|> <|fim_pad|>", "<|end_of_text|> <|fim_pad|>"},
		{"LFM2", "<|im_end|>", "<|pad|> <|startoftext|> <|endoftext|> <|im_start|> <|im_end|>", "<|endoftext|> <|im_end|>"},
		{"Seed OSS", "<seed:eos>", "<seed:bos> <seed:pad> <seed:eos> <seed:think>", "<seed:eos>"},
		{"Hunyuan", "<|eos|>", "<|startoftext|> <|bos|> <|eos|> <|pad|> <|extra_0|>", "<|eos|>"},
		{"ERNIE 4.5", "</s>", "<unk> <s> </s> <|begin_of_sentence|> <|end_of_sentence|>", "</s>"},
		{"Nemotron 3", "<|im_end|>", "<unk> <s> </s> <|im_start|> <|im_end|> <think>", "</s> <|im_end|>"},
		{"Command A", "<|END_OF_TURN_TOKEN|>", "<PAD> <BOS_TOKEN> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|>", "<PAD> <|END_OF_TURN_TOKEN|>"},
		{"EXAONE 4", "[|endofturn|]", "[PAD] [BOS] [|endofturn|] [|user|]", "[PAD] [|endofturn|]"},
		{"Ling", "<|role_end|>", "<|startoftext|> <|endoftext|> <role> <|role_end|>", "<|endoftext|> <|role_end|>"},
		{"PLaMo", "<|plamo:eos|>", "<|plamo:unk|> <|plamo:bos|> <|plamo:eos|> <|plamo:op|>", "<|plamo:eos|>"},
		{"StarCoder 2", "<|endoftext|>", "<|endoftext|> <fim_prefix> <fim_suffix> <fim_pad> <reponame> <|file_sep|>", "<|endoftext|> <fim_pad> <reponame> <|file_sep|>"},
	} {
		special := strings.Fields(tt.tokens)
		f := bpeFields(special)
		at := len(f[prefix+"tokens"].([]string)) - len(special)
		f[prefix+"eos_token_id"] = uint32(at + slices.Index(special, tt.eos))
		tok := mustNew(t, f)
		var ends []string
		for _, id := range tok.EOG() {
			ends = append(ends, special[int(id)-at])
		}
		if got := fmt.Sprint(ends); got != "["+tt.ends+"]" {
			t.Errorf("%s: replies end with %s, want %s", tt.family, got, tt.ends)
		}
	}
}
