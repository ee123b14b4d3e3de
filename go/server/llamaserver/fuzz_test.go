package llamaserver_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

func FuzzNative(f *testing.F) {
	fake.FuzzPost(f, "/completion", `{"prompt":"x","grammar":"root ::= \"<a>\" [0-9]{1,3} | x\nx ::= . <s>","grammar_lazy":true,"grammar_triggers":[{"type":"pattern","value":"(<a>)"},{"type":0,"token":5}],"preserved_tokens":["<s>"]}`,
		`{"prompt":"x","guided_regex":"(?=a)[a-z]+\\p{L}{2,3}"}`, `{"prompt":"x","guided_choice":["a","b"]}`,
		`{"prompt":"x","guided_grammar":"start: \"a\" B*\nB: /[b-d]/"}`,
		`{"prompt":"x","guided_json":"{\"type\":\"integer\"}"}`,
		`{"prompt":{"prompt_string":"x"},"samplers":"kpm","response_fields":["a/b","content"]}`,
		`{"prompt":"x","logit_bias":[[5,-1.5],["a",false],[[1,2],3]]}`,
		`{"prompt":"x","logit_bias":{"a":1,"5":false},"lora":[{"id":0,"scale":0.5}]}`,
		`{"prompt":"x","n_probs":1,"stream":true}`)
}

func FuzzRerank(f *testing.F) {
	fake.FuzzPost(f, "/v1/rerank", `{"query":"x","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true}`,
		`{"query":"x","texts":["a"],"raw_scores":true}`)
}

func FuzzDecisions(f *testing.F) {
	fake.FuzzPost(f, "/v1/decisions", `{"prompt":"x","choices":["a","b"],"prior":"N/A","normalize":"bytes"}`,
		`{"messages":[{"role":"user","content":"x"}],"questions":[{"name":"n","prompt":"p","choices":["yes","no"]}],"ends":false}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,eA=="}]}],"questions":[{"type":"choice","name":null,"instructions":"i","choices":[{"value":true},{"value":"true","description":"d"}]},{"type":"score","instructions":"i","levels":[{"label":"a"},{"label":"b"}]},{"type":"predicate","instructions":"i"}]}`)
}

func FuzzSystemOne(f *testing.F) {
	fake.FuzzPost(f, "/v1/systemone", `{"state":{"a":[1]},"instructions":["i"],"questions":{"a":{"type":"noul","instructions":"i","criteria":{"true":"t"}},"b":{"type":"choice","criteria":{"x":"d","y":null}},"c":{"type":"score","criteria":["l",{"m":1}]}}}`,
		`{"state":"s","labels":"letters","prior":"N/A","questions":{"b":{"type":"choice","criteria":{"x":"d","y":null},"calibration":{"temperature":2,"bias":[1,0]}}}}`)
}

func FuzzInfill(f *testing.F) {
	fake.FuzzPost(f, "/infill", `{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"x","text":"y"}],"prompt":"p"}`)
}

func FuzzTokenize(f *testing.F) {
	fake.FuzzPost(f, "/tokenize", `{"content":"a<s>\u00e9","with_pieces":true,"add_special":true}`)
}

func FuzzDetokenize(f *testing.F) { fake.FuzzPost(f, "/detokenize", `{"tokens":[1,2,300]}`) }

func FuzzTemplate(f *testing.F) { fake.FuzzPost(f, "/apply-template", `{`+fake.Hi+`}`) }

func FuzzSlots(f *testing.F) {
	fake.FuzzPost(f, "/slots/0?action=save", `{"filename":"a"}`, `{"filename":"../a"}`)
}

func FuzzAdapters(f *testing.F) { fake.FuzzPost(f, "/lora-adapters", `[]`, `[{"id":0,"scale":1}]`) }
