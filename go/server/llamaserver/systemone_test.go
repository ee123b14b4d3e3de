package llamaserver_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// named is the answer of /v1/systemone, and listed that of OpenAI's Decisions API.
type (
	named struct {
		Model   string `json:"model"`
		Answers map[string]struct {
			Type          string             `json:"type"`
			Noul          *float64           `json:"noul"`
			Choice        *string            `json:"choice"`
			Score         *float64           `json:"score"`
			Legend        map[string]any     `json:"legend"`
			Probabilities map[string]float64 `json:"probabilities"`
			Confidence    *float64           `json:"confidence"`
		} `json:"answers"`
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		} `json:"usage"`
	}
	listed struct {
		Model   string `json:"model"`
		Answers []struct {
			Type          string   `json:"type"`
			Name          *string  `json:"name"`
			Probability   *float64 `json:"probability"`
			Choice        any      `json:"choice"`
			Score         *float64 `json:"score"`
			Probabilities []struct {
				Value       any     `json:"value"`
				Label       *string `json:"label"`
				Probability float64 `json:"probability"`
			} `json:"probabilities"`
			Confidence *float64 `json:"confidence"`
		} `json:"answers"`
		Usage struct {
			Input   int `json:"input_tokens"`
			Details struct {
				Cached  *int `json:"cached_tokens"`
				Written *int `json:"cache_write_tokens"`
			} `json:"input_tokens_details"`
			Output int `json:"output_tokens"`
			Total  int `json:"total_tokens"`
		} `json:"usage"`
	}
)

// Typed questions, what each is written as, and the choices of that.
const (
	about     = "The little dog ran to the big tree and saw a red ball."
	typedName = `"happy":{"type":"noul","instructions":"Is the dog happy?","criteria":{"true":"it plays","false":null}},
		"what":{"type":"choice","instructions":"What is red?","criteria":{"ball":"a toy","tree":null,"ball of wool":null}},
		"big":{"type":"score","instructions":"How big is the tree?","criteria":["small",{"size":"big"},null]}`
	typedList = `{"type":"predicate","name":"happy","instructions":"Is the dog happy?"},
		{"type":"choice","instructions":"What is red?","choices":[{"value":"ball","description":"a toy"},{"value":true},{"value":"tree"}]},
		{"type":"score","name":null,"instructions":"How big is the tree?","levels":[{"label":"small"},{"label":"big","description":"as a house"}]}`
)

var written = map[string]struct {
	prompt  string
	choices []string
	ends    bool
}{
	"happy": {"Is the dog happy?\n\nAnswer Yes or No:\nYes: it plays", []string{"Yes", "No"}, false},
	"what": {"What is red?\n\nAnswer with one of these labels:\nball: a toy\ntree\nball of wool",
		[]string{"ball", "tree", "ball of wool"}, true},
	"big": {"How big is the tree?\n\nAnswer with the number of one of these levels:\n0: small\n1: {\"size\":\"big\"}\n2", []string{"0", "1", "2"}, false},
}

// same reports whether numbers are the same, but for how sums are rounded.
func same(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

// asConversation returns the probabilities that /v1/decisions has for a question as a conversation.
func asConversation(s *fake.Site, prompt string, choices []string, ends bool) (all []float64) {
	body, _ := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": about + "\n\n" + prompt}},
		"choices": choices, "ends": ends, "reasoning_effort": "none"})
	for _, c := range fake.Post[decisions](s, "/v1/decisions", string(body)).Decisions[0].Choices {
		all = append(all, c.Probability)
	}
	return all
}

// What typed questions are answered is what /v1/decisions says of the same questions, in any company.
func TestSystemOne(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	want := map[string][]float64{}
	for name, w := range written {
		want[name] = asConversation(s, w.prompt, w.choices, w.ends)
	}
	body := fmt.Sprintf(`{"model":"any","state":%q,"questions":{%s}}`, about, typedName)
	first := fake.Post[named](s, "/v1/systemone", body) // whose tokens are counted whether or not the cache has them
	if n := len(s.Tokens(about)); first.Usage.Input < 2*n || first.Usage.Input > 12*n {
		t.Errorf("%d tokens for a state of %d", first.Usage.Input, n)
	}
	var wg sync.WaitGroup
	for i, path := range []string{"/v1/systemone", "/systemone", "/v1/decisions", "/v1/systemone"} {
		wg.Go(func() {
			a := fake.Post[named](s, path, body)
			if len(a.Answers) != 3 || a.Model != "demo" || a.Usage.Input != first.Usage.Input || a.Usage.Output != 0 {
				t.Errorf("%d: %+v", i, a)
				return
			}
			happy, what, big := a.Answers["happy"], a.Answers["what"], a.Answers["big"]
			if happy.Type != "noul" || *happy.Noul != want["happy"][0] || happy.Confidence != nil || happy.Probabilities != nil {
				t.Errorf("%d: %+v, want %v", i, happy, want["happy"])
			}
			best := 0
			for k, label := range written["what"].choices {
				if p := want["what"][k]; what.Probabilities[label] != p {
					t.Errorf("%d: %+v, want %v", i, what, want["what"])
				} else if p > want["what"][best] {
					best = k
				}
			}
			if what.Type != "choice" || *what.Choice != written["what"].choices[best] || what.Legend != nil ||
				!same(*what.Confidence, (3*want["what"][best]-1)/2) {
				t.Errorf("%d: %+v", i, what)
			}
			p := want["big"]
			if big.Type != "score" || !same(*big.Score, p[1]+2*p[2]) || big.Probabilities["1"] != p[1] || len(big.Probabilities) != 3 ||
				fmt.Sprint(big.Legend) != "map[0:small 1:map[size:big] 2:<nil>]" || !same(*big.Confidence, (3*max(p[0], p[1], p[2])-1)/2) {
				t.Errorf("%d: %+v, want %v", i, big, p)
			}
		})
	}
	wg.Wait()
	// Letters stand for texts where that is asked for, and where there is an order before all, it is.
	letters := fake.Post[named](s, "/v1/systemone", fmt.Sprintf(`{"state":%q,"instructions":"Look closely.","labels":"letters","questions":{
		"q":{"type":"choice","instructions":"What is red?","criteria":{"ball":"a toy","tree":null}}}}`, about)).Answers["q"]
	lettered, _ := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": "Look closely.\n\n" + about +
		"\n\nWhat is red?\n\nAnswer with the letter of one of these:\nA: ball: a toy\nB: tree"}}, "choices": []string{"A", "B"}, "ends": false, "reasoning_effort": "none"})
	if d := decide(t, s, string(lettered)).Decisions[0].Choices; letters.Probabilities["ball"] != d[0].Probability ||
		letters.Probabilities["tree"] != d[1].Probability {
		t.Errorf("%+v, want %+v", letters, d)
	}
	// A prior and a calibration change the probabilities as those of /v1/decisions.
	fitted := fake.Post[named](s, "/v1/systemone", fmt.Sprintf(`{"state":%q,"questions":{
		"q":{"type":"noul","instructions":"Is it red?","calibration":{"temperature":2,"bias":[1,0]}}}}`, about)).Answers["q"]
	plain := asConversation(s, "Is it red?\n\nAnswer Yes or No.", []string{"Yes", "No"}, false)
	if p := math.Sqrt(plain[0]) * math.E; math.Abs(*fitted.Noul-p/(p+math.Sqrt(plain[1]))) > 1e-9 {
		t.Errorf("calibrated %g, plain %v", *fitted.Noul, plain)
	}
	own := fake.Post[named](s, "/v1/systemone", fmt.Sprintf(`{"state":%q,"prior":%q,"questions":{"q":{"type":"noul","instructions":"Is it red?"}}}`, about, about)).Answers["q"]
	if !same(*own.Noul, 0.5) { // all is owed to the prior
		t.Errorf("of its own prior %g", *own.Noul)
	}
}

// OpenAI's questions have the same answers in its form.
func TestOpenAIDecisions(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	message := fmt.Sprintf(`[{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}]`, about)
	for _, input := range []string{fmt.Sprintf("%q", about), message} {
		a := fake.Post[listed](s, "/v1/decisions", fmt.Sprintf(`{"model":"any","input":%s,"safety_identifier":"x","questions":[%s]}`, input, typedList))
		if len(a.Answers) != 3 || a.Usage.Input != a.Usage.Total || a.Usage.Input < 50 || a.Usage.Details.Cached == nil || a.Usage.Details.Written == nil {
			t.Fatalf("%+v", a)
		}
		happy, what, big := a.Answers[0], a.Answers[1], a.Answers[2]
		if p := asConversation(s, "Is the dog happy?\n\nAnswer Yes or No.", []string{"Yes", "No"}, false); happy.Type != "predicate" ||
			happy.Name == nil || *happy.Name != "happy" || *happy.Probability != p[0] || happy.Confidence != nil {
			t.Errorf("%+v, want %v", happy, p)
		}
		p := asConversation(s, "What is red?\n\nAnswer with one of these labels:\nball: a toy\ntrue\ntree", []string{"ball", "true", "tree"}, false)
		if what.Name != nil || len(what.Probabilities) != 3 || what.Probabilities[1].Value != true || what.Probabilities[0].Value != "ball" ||
			what.Probabilities[1].Probability != p[1] || what.Probabilities[0].Label != nil || what.Confidence == nil || what.Choice == nil {
			t.Errorf("%+v, want %v", what, p)
		}
		p = asConversation(s, "How big is the tree?\n\nAnswer with the number of one of these levels:\n0: small\n1: big: as a house", []string{"0", "1"}, false)
		if big.Name != nil || !same(*big.Score, p[1]) || big.Probabilities[1].Value != 1.0 || *big.Probabilities[1].Label != "big" ||
			big.Probabilities[0].Probability != p[0] || !same(*big.Confidence, 2*max(p[0], p[1])-1) {
			t.Errorf("%+v, want %v", big, p)
		}
	}
}

func TestTypedQuestionsRefused(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	labels := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%c%c":null`, 'a'+i/26, 'a'+i%26))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	choice := func(n int) string { return `{"type":"choice","criteria":` + labels(n) + `}` }
	levels := strings.TrimSuffix(strings.Repeat(`"a",`, 11), ",")
	for _, c := range []struct{ path, body, want string }{
		{"/v1/systemone", `{}`, "state: missing"},
		{"/v1/systemone", `{"state":"s"}`, "questions: missing, want an object such as"},
		{"/v1/systemone", `{"state":5,"questions":{}}`, "state: 5, want a string, an object or an array"},
		{"/v1/systemone", `{"state":" ","questions":{}}`, "state: empty"},
		{"/v1/systemone", `{"state":"s","questions":{}}`, "questions: empty"},
		{"/v1/systemone", `{"state":"s","questions":[{"type":"predicate","instructions":"i"}]}`, "questions: with state, want an object"},
		{"/v1/systemone", `{"state":"s","questions":{"":{"type":"noul","instructions":"i"}}}`, `questions: "": the name is empty`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{}}}`, `questions: "q": type: missing, want noul, choice, score`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"box"}}}`, `questions: "q": type: the string "box", want one of`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"noul"}}}`, `questions: "q": instructions: missing`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"noul","criteria":{"maybe":"m"}}}}`, `questions: "q": criteria: "maybe" is not known`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"noul","criteria":{"true":5}}}}`, `questions: "q": criteria: true: 5, want`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"choice"}}}`, `questions: "q": criteria: missing, want an object`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"choice","criteria":["a","b"]}}}`, `questions: "q": criteria: an array, want an object`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"choice","criteria":{"a":null}}}}`, `questions: "q": criteria: 1, want at least 2`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"choice","criteria":{"a":null,"":null}}}}`, `questions: "q": criteria: a label is empty`},
		{"/v1/systemone", `{"state":"s","questions":{"q":` + choice(256) + `}}`, `questions: "q": criteria: more than 255`},
		{"/v1/systemone", `{"state":"s","questions":{"a":` + choice(255) + `,"b":` + choice(255) + `,"c":` + choice(3) + `}}`, `questions: "c": choices: more than 512 in all`},
		{"/v1/systemone", `{"state":"s","prior":"","questions":{"a":` + choice(255) + `,"b":` + choice(2) + `}}`, `choices: 514 in all`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"score","criteria":{"a":null}}}}`, `questions: "q": criteria: an object, want an array`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"score","criteria":["a"]}}}`, `questions: "q": criteria: 1, want at least 2`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"score","criteria":[` + levels + `]}}}`, `questions: "q": criteria: more than 10`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"noul","instructions":"i","critera":null}}}`, `questions: "q": critera: "critera" is not known`},
		{"/v1/systemone", `{"state":"s","questions":{"q":{"type":"noul","instructions":"i","calibration":{"bias":[1]}}}}`, `questions: "q": calibration: bias: 1 numbers for 2`},
		{"/v1/systemone", `{"state":"s","labels":"words","questions":{"q":{"type":"noul","instructions":"i"}}}`, `labels: `},
		{"/v1/systemone", `{"state":"s","instructions":7,"questions":{"q":{"type":"noul","instructions":"i"}}}`, `instructions: 7`},
		{"/v1/systemone", `{"state":"` + strings.Repeat("ab ", 400) + `","questions":{"q":{"type":"noul","instructions":"i"}}}`, "exceeds the available context"},
		{"/v1/decisions", `{"state":"s","input":"i","questions":{}}`, "questions: empty"},
		{"/v1/decisions", `{"state":"s","input":"i","questions":{"q":{"type":"noul","instructions":"i"}}}`, "state: given together with input"},
		{"/v1/decisions", `{"input":"s"}`, "questions: missing, want an array"},
		{"/v1/decisions", `{"input":"s","choices":["a","b"]}`, "choices: given together with input"},
		{"/v1/decisions", `{"input":"s","questions":[{"choices":["a","b"]}]}`, "questions: with input, want an array"},
		{"/v1/decisions", `{"prompt":"s","questions":[{"type":"predicate","instructions":"i"}]}`, "questions: with prompt, want an array"},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"predicate","instructions":"i"},{"choices":["a","b"]}]}`, "questions: element 1: has a type"},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"predicate"}]}`, "questions: element 0: instructions: missing"},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"predicate","instructions":"i","name":5}]}`, "questions: element 0: name: 5"},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"choice","instructions":"i"}]}`, "questions: element 0: choices: missing"},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"choice","instructions":"i","choices":[{"value":"a"},{"value":"a"}]}]}`, `choices: element 1: value: "a" is there twice`},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"choice","instructions":"i","choices":[{"value":"true"},{"value":true}]}]}`, `element 0: true is a label and a boolean`},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"choice","instructions":"i","choices":[{"value":3},{"value":"a"}]}]}`, "choices: element 0: value: 3"},
		{"/v1/decisions", `{"input":"s","questions":[{"type":"score","instructions":"i","levels":[{"label":"a"}]}]}`, "levels: 1, want at least 2"},
		{"/v1/decisions", `{"input":[{"role":"assistant","content":"a"}],"questions":[{"type":"predicate","instructions":"i"}]}`, "input: message 0: role: the string"},
		{"/v1/decisions", `{"input":[{"role":"user","content":[{"type":"input_file"}]}],"questions":[{"type":"predicate","instructions":"i"}]}`, "input: message 0: content: part 0: type: the string"},
		{"/v1/decisions", `{"input":[{"role":"user","content":[{"type":"input_image"}]}],"questions":[{"type":"predicate","instructions":"i"}]}`, "image_url: missing"},
		{"/v1/decisions", `{"input":[],"questions":[{"type":"predicate","instructions":"i"}]}`, "input: empty"},
	} {
		status, b, _ := s.Do("POST", c.path, c.body)
		if e := fake.ErrorOf(t, b); status != 400 || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s %.120s: %d %s, want %s", c.path, c.body, status, b, c.want)
		}
	}
	// What a boolean and a text with its name are told apart by are letters.
	if status, b, _ := s.Do("POST", "/v1/decisions", `{"input":"s","labels":"letters","questions":[{"type":"choice","instructions":"i","choices":[{"value":"true"},{"value":true}]}]}`); status != 200 {
		t.Errorf("%d %s", status, b)
	}
}

// A model that is made for decisions is not asked as one that generates text.
func TestDecisionHeads(t *testing.T) {
	t.Parallel()
	meta := fake.Vocabulary(fake.Controls)
	meta["llama.decision.type"] = "pointer"
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Metadata, m.Info.Arch = meta, "llama" })
	status, b, _ := s.Do("POST", "/v1/systemone", `{"state":"s","questions":{"q":{"type":"noul","instructions":"i"}}}`)
	if e := fake.ErrorOf(t, b); status != 501 || !strings.HasPrefix(e.Message, "this model has a head for decisions (pointer)") {
		t.Errorf("%d %s", status, b)
	}
	decide(t, s, `{"prompt":"a","choices":["x","y"]}`)
}
