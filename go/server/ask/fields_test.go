package ask_test

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

func TestWrongTogether(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	chat := func(fields string) string { return "{" + fake.Hi + "," + fields + "}" }
	for _, c := range []struct {
		path, body string
		status     int
		param      string
	}{
		{"/v1/chat/completions", `{}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":null}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user"}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":null}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":["x"]}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`,
			400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"alien","content":"x"}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x","name":5}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"assistant","content":"x","tool_calls":"y"}]}`, 400, "messages"},
		{"/v1/chat/completions", chat(`"top_logprobs":2`), 400, "top_logprobs"},
		{"/v1/chat/completions", chat(`"stream_options":{"include_usage":true}`), 400, "stream_options"},
		{"/v1/chat/completions", chat(`"max_tokens":1,"max_completion_tokens":2`), 400, "max_completion_tokens"},
		{"/v1/chat/completions", chat(`"id_slot":4`), 400, "id_slot"},
		{"/v1/chat/completions", chat(`"logit_bias":{"100000":1}`), 400, "logit_bias"},
		{"/v1/chat/completions", chat(`"tools":[{"type":"function"}]`), 400, "tools"},
		{"/v1/chat/completions", chat(`"tool_choice":"required"`), 400, "tool_choice"},
		{"/v1/chat/completions", chat(`"continue_final_message":true`), 400, "continue_final_message"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"continue_final_message":true,"add_generation_prompt":true}`, 400, "continue_final_message"},
		{"/v1/chat/completions", chat(`"samplers":["luck"]`), 400, "samplers"},
		{"/v1/completions", `{"prompt":"x","best_of":3}`, 400, "best_of"},
		{"/v1/completions", `{"prompt":"x","echo":true,"logprobs":1,"suffix":"y"}`, 400, "suffix"},
		{"/v1/completions", `{"prompt":["a","b"],"n":100}`, 400, "n"},
		{"/v1/completions", `{"prompt":{"prompt_string":"x","multimodal_data":["aGk="]}}`, 400, "prompt"},
		{"/completion", `{"prompt":"x","mirostat":3}`, 400, "mirostat"},
		{"/completion", `{"prompt":"x","samplers":"kq"}`, 400, "samplers"},
		{"/completion", `{"prompt":"x","samplers":"` + strings.Repeat("k", 33) + `"}`, 400, "samplers"},
		{"/completion", `{"prompt":"x","dry_sequence_breakers":["\n",""]}`, 400, "dry_sequence_breakers"},
		{"/completion", `{"prompt":"x","dry_sequence_breakers":["` + strings.Repeat("-", 41) + `"]}`, 400,
			"dry_sequence_breakers"},
		{"/completion", `{"prompt":"x","dry_sequence_breakers":["a"` + strings.Repeat(`,"a"`, 64) + `]}`, 400,
			"dry_sequence_breakers"},
		{"/completion", `{"prompt":"x","lora":[{"id":0,"scale":1}]}`, 400, "lora"},
		{"/detokenize", `{"tokens":[100000]}`, 400, "tokens"},
		{"/tokenize", `{}`, 400, "content"},
		{"/apply-template", `{}`, 400, "messages"},
	} {
		s.Refused(c.path, c.body, c.status, c.param)
	}
}

// What asks for nothing is taken, so that clients which send all they know are
// served.
func TestNeutralFields(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	fake.Post[struct{}](s, "/v1/chat/completions", `{`+fake.Hi+`,"tools":[],"tool_choice":"none","response_format":{"type":"text"},"grammar":"","json_schema":null,
		"mirostat":0,"mirostat_tau":5.0,"dry_multiplier":0.0,"dry_base":1.75,"dry_allowed_length":2,"dry_penalty_last_n":-1,"xtc_probability":0,"xtc_threshold":0.1,
		"typical_p":1.0,"dynatemp_range":0,"dynatemp_exponent":1,"top_n_sigma":-1,"lora":[],"n_keep":0,"samplers":["dry","penalties","top_k","typ_p","top_p","min_p","xtc","top_n_sigma","temperature"],"post_sampling_probs":false,
		"stop":[],"logit_bias":[],"modalities":["text"],"store":false,"metadata":{},"n_cache_reuse":256,"user":"me","stream":false,"parallel_tool_calls":true}`)
}
