package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// seeing serves a small model that sees.
func seeing(t *testing.T, text, eyes string) *fake.Site {
	return fake.Demo(t, fake.Setup{File: testdata.Path(t, filepath.Join("mmproj", text)), Projector: testdata.Path(t, filepath.Join("mmproj", eyes))})
}

// inBase64 returns a file of the test data.
func inBase64(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(testdata.Path(t, "mmproj/media/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

func object(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A prompt with a picture or a sound goes on as in llama.cpp, from the cache too.
func TestSeeingGoesOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"qwen3vl.start", "gemma3.middle", "gemma4v.start", "qwen25vl.middle", "pixtral.start", "qwen2a.speech"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c struct {
				MMProj string
				Text   string `json:"text_model"`
				Media  []string
				Prompt string
				Tokens int `json:"n_tokens"`
				Greedy []int32
				Gaps   []float64
				Chunks []struct {
					IDs  []int32
					Rows int
				}
			}
			data, err := os.ReadFile(testdata.Path(t, "mmproj/cases/"+name+".json"))
			if err == nil {
				err = json.Unmarshal(data, &c)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := seeing(t, c.Text, c.MMProj)
			prompt := c.Prompt
			if !strings.Contains(prompt, "<__media__>") {
				prompt = "<__media__>" + prompt
			}
			var files []string
			for _, m := range c.Media {
				files = append(files, inBase64(t, filepath.Base(m)))
			}
			body := object(t, map[string]any{
				"prompt":      map[string]any{"prompt_string": strings.ReplaceAll(prompt, "<__media__>", ask.MediaMarker), "multimodal_data": files},
				"temperature": 0, "n_predict": len(c.Greedy), "return_tokens": true, "ignore_eos": true,
			})
			type answer struct {
				Tokens []int32
				Read   int `json:"tokens_evaluated"`
				Cached int `json:"tokens_cached"`
			}
			var want []int32 // of /tokenize, where tokens of media are -1
			for _, chunk := range c.Chunks {
				want = append(append(want, chunk.IDs...), slices.Repeat([]int32{-1}, chunk.Rows)...)
			}
			listed := fake.Post[struct{ Tokens []int32 }](s, "/tokenize", object(t, map[string]any{
				"content":     map[string]any{"prompt_string": strings.ReplaceAll(prompt, "<__media__>", ask.MediaMarker), "multimodal_data": files},
				"add_special": true,
			}))
			if !slices.Equal(listed.Tokens, want) {
				t.Errorf("/tokenize: %v, want %v", listed.Tokens, want)
			}
			first := fake.Post[answer](s, "/completion", body)
			if first.Read != c.Tokens {
				t.Errorf("%d tokens, want %d", first.Read, c.Tokens)
			}
			sure := 0
			for sure < len(c.Gaps) && c.Gaps[sure] > 0.05 {
				sure++
			}
			if sure == 0 || len(first.Tokens) < sure || fmt.Sprint(first.Tokens[:sure]) != fmt.Sprint(c.Greedy[:sure]) {
				t.Errorf("%v, want %v, the first %d for sure", first.Tokens, c.Greedy, sure)
			}
			second := fake.Post[answer](s, "/completion", body)
			if fmt.Sprint(second.Tokens) != fmt.Sprint(first.Tokens) {
				t.Errorf("again %v, before %v", second.Tokens, first.Tokens)
			}
			if second.Cached == 0 {
				t.Error("nothing of the second prompt was cached")
			}
		})
	}
}

// Every API takes a picture, and makes the same prompt of it.
func TestSeeingInEveryAPI(t *testing.T) {
	t.Parallel()
	s := seeing(t, "text/qwen3vl-4k.gguf", "mm/qwen3vl-f16.gguf")
	png := inBase64(t, "small-224x160.png")
	url := "data:image/jpeg;base64," + png // what it is called decides nothing
	type usage struct {
		Prompt    int `json:"prompt_tokens"`
		Input     int `json:"input_tokens"`
		CacheRead int `json:"cache_read_input_tokens"`
		Details   struct {
			Image int `json:"image_tokens"`
		} `json:"prompt_tokens_details"`
		InputDetails struct {
			Image int `json:"image_tokens"`
		} `json:"input_tokens_details"`
	}
	type answered struct {
		Usage usage
		Count int `json:"input_tokens"`
		Evals int `json:"prompt_eval_count"`
	}
	said := `{"type":"text","text":"What is it?"}`
	chat := `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `","detail":"auto"}},` + said + `]}]`
	first := fake.Post[answered](s, "/v1/chat/completions", `{`+chat+`,"max_tokens":2}`)
	n, images := first.Usage.Prompt, first.Usage.Details.Image
	if images < 8 || n <= images {
		t.Fatalf("%+v", first)
	}
	prompt := func(a answered) int { return a.Usage.Prompt + a.Usage.Input + a.Usage.CacheRead + a.Count + a.Evals }
	for _, c := range []struct{ name, path, body string }{
		{"base64 alone", "/v1/chat/completions", strings.ReplaceAll(`{`+chat+`,"max_tokens":2}`, url, png)},
		{"a URL alone", "/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"image_url","image_url":"` + url + `"},` + said + `]}]}`},
		{"a file", "/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"` + url + `"}},` + said + `]}]}`},
		{"counted", "/v1/chat/completions/input_tokens", `{` + chat + `}`},
		{"responses", "/v1/responses", `{"max_output_tokens":2,"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + url + `"},{"type":"input_text","text":"What is it?"}]}]}`},
		{"responses counted", "/v1/responses/input_tokens", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + url + `"},{"type":"input_text","text":"What is it?"}]}]}`},
		{"anthropic", "/v1/messages", `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}},` + said + `]}]}`},
		{"anthropic counted", "/v1/messages/count_tokens", `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}},` + said + `]}]}`},
		{"ollama", "/api/chat", `{"stream":false,"options":{"num_predict":2},"messages":[{"role":"user","content":"What is it?","images":["` + png + `"]}]}`},
		{"ollama generate", "/api/generate", `{"stream":false,"options":{"num_predict":2},"prompt":"What is it?","images":["` + png + `"]}`},
	} {
		got := fake.Post[answered](s, c.path, c.body)
		if prompt(got) != n {
			t.Errorf("%s: %+v, want %d tokens", c.name, got, n)
		}
		if c.name == "responses" && got.Usage.InputDetails.Image != images {
			t.Errorf("%s: %+v, want %d of them of the picture", c.name, got, images)
		}
	}
	// Results of tools have pictures too.
	plain := fake.Post[answered](s, "/v1/messages", `{"max_tokens":1,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[]}]}]}`)
	shown := fake.Post[answered](s, "/v1/messages", `{"max_tokens":1,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","data":"`+png+`"}}]}]}]}`)
	if prompt(shown) < prompt(plain)+images {
		t.Errorf("a picture in a result makes %d tokens of %d", prompt(shown), prompt(plain))
	}
	parts := fake.Post[answered](s, "/v1/chat/completions", `{"max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"`+url+`"}}]}]}`)
	if parts.Usage.Details.Image != images {
		t.Errorf("%+v", parts)
	}
	called := fake.Post[answered](s, "/v1/responses", `{"max_output_tokens":1,"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"`+url+`"}]}]}`)
	if called.Usage.InputDetails.Image != images {
		t.Errorf("%+v", called)
	}
}

// A picture of a URL is the one that is sent, in Anthropic's form too, where the operator allows the host. A
// host that is not allowed, and one that a redirect names, is not asked.
func TestPicturesOfURLs(t *testing.T) {
	t.Parallel()
	png := inBase64(t, "small-224x160.png")
	data, err := base64.StdEncoding.DecodeString(png)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "image/png")
		w.Write(data)
	}))
	t.Cleanup(elsewhere.Close)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "image/png")
		w.Write(data)
	}))
	t.Cleanup(site.Close)
	open := func(from string) *fetch.Fetcher {
		f, err := fetch.New(from, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	eyes := fake.Setup{File: testdata.Path(t, "mmproj/text/qwen3vl-4k.gguf"), Projector: testdata.Path(t, "mmproj/mm/qwen3vl-f16.gguf")}
	eyes.Server.Fetch = open("off")
	off := fake.Demo(t, eyes)
	eyes.Server.Fetch = open(strings.TrimPrefix(site.URL, "http://"))
	s := fake.Demo(t, eyes)
	source := func(url string) string { return `{"type":"image","source":{"type":"url","url":"` + url + `"}}` }
	const said = `{"type":"text","text":"What is it?"}`
	const call = `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},`
	bodies := func(source string) []string {
		return []string{
			`{"max_tokens":3,"temperature":0,"messages":[{"role":"user","content":[` + source + `,` + said + `]}]}`,
			`{"max_tokens":3,"temperature":0,"messages":[` + call + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[` + source + `]}]}]}`,
		}
	}
	type answered struct {
		Content []struct{ Text string }
		Usage   struct {
			Input     int `json:"input_tokens"`
			CacheRead int `json:"cache_read_input_tokens"`
		}
	}
	sent := bodies(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}`)
	for i, body := range bodies(source(site.URL + "/a.png")) {
		want, got := fake.Post[answered](s, "/v1/messages", sent[i]), fake.Post[answered](s, "/v1/messages", body)
		if n := want.Usage.Input + want.Usage.CacheRead; n < 20 || got.Usage.Input+got.Usage.CacheRead != n || !slices.Equal(got.Content, want.Content) {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
		if status, b, _ := off.Do("POST", "/v1/messages", body); status != 400 || !strings.Contains(string(b), "this server fetches none, send the file in base64; start it with --media-url public") {
			t.Errorf("request %d where none is fetched: %d %s", i, status, b)
		}
	}
	for url, want := range map[string]string{site.URL + "/away": "none of those that this server may ask", elsewhere.URL: "none of those that this server may ask",
		"http://169.254.169.254/latest/meta-data": "none of those that this server may ask"} {
		for _, body := range bodies(source(url)) {
			if status, b, _ := s.Do("POST", "/v1/messages", body); status != 400 || !strings.Contains(string(b), want) {
				t.Errorf("%s: %d %s", url, status, b)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a host that is not allowed is asked %d times", n)
	}
}

// Videos are lists of frames, and animations where they are asked for.
func TestVideos(t *testing.T) {
	t.Parallel()
	jpeg, png, gif := inBase64(t, "exif-1.jpg"), inBase64(t, "small-224x160.png"), inBase64(t, "two-frames-160x120.gif")
	type answered struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Image int `json:"image_tokens"`
			} `json:"prompt_tokens_details"`
		}
		Choices []struct{ Message struct{ Content string } }
	}
	body := func(part string) string {
		return `{"max_tokens":4,"temperature":0,"messages":[{"role":"user","content":[` + part + `,{"type":"text","text":"What moves?"}]}]}`
	}
	of := func(kind, field, source, more string) string {
		return `{"type":"` + kind + `","` + kind + `":{"` + field + `":"` + source + `"` + more + `}}`
	}
	list := "data:video/jpeg;base64," + png + "," + png + "," + png
	for name, steps := range map[string]int{"qwen3vl": 2, "qwen25vl": 2, "gemma4v": 3, "llava": 3} {
		text := map[string]string{"qwen3vl": "text/qwen3vl-4k.gguf", "qwen25vl": "text/qwen2vl-4k.gguf", "gemma4v": "../archs/gemma4.gguf", "llava": "../archs/llama.gguf"}[name]
		s := seeing(t, text, "mm/"+name+"-f16.gguf")
		still := fake.Post[answered](s, "/v1/chat/completions", body(of("image_url", "url", "data:image/png;base64,"+png, "")))
		moving := fake.Post[answered](s, "/v1/chat/completions", body(of("video_url", "url", list, `,"fps":1`)))
		most := still.Usage.Details.Image
		if name == "gemma4v" {
			most = 70
		}
		if got := moving.Usage.Details.Image; got == 0 || got%steps != 0 || got > steps*most {
			t.Errorf("%s: %d tokens of %d steps, a picture has %d", name, got, steps, still.Usage.Details.Image)
		}
		again := fake.Post[answered](s, "/v1/chat/completions", body(of("input_video", "data", list, `,"fps":1`)))
		if fmt.Sprint(again) != fmt.Sprint(moving) {
			t.Errorf("%s: %+v, before %+v", name, again, moving)
		}
	}
	s := seeing(t, "text/qwen3vl-4k.gguf", "mm/qwen3vl-f16.gguf")
	if got := fake.Post[answered](s, "/v1/chat/completions", body(of("input_video", "data", gif, ""))); got.Usage.Details.Image == 0 {
		t.Errorf("an animation: %+v", got)
	}
	mp4 := base64.StdEncoding.EncodeToString([]byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00"))
	webm := base64.StdEncoding.EncodeToString([]byte("\x1aE\xdf\xa3 webm"))
	for _, c := range []struct{ part, want string }{
		{of("video_url", "url", "data:video/mp4;base64,"+mp4, ""), "MP4 is not read as a video; want its frames"},
		{of("video_url", "url", "data:video/webm;base64,"+webm, ""), "WebM and Matroska are not read"},
		{of("video_url", "url", "data:image/png;base64,"+png, ""), "PNG is not read as a video"},
		{of("video_url", "url", "data:video/jpeg;base64,"+png+","+jpeg, ""), "frame 1 has"},
		{of("video_url", "url", "data:video/jpeg;base64,"+png+",x", ""), "frame 1 is not in base64"},
		{of("video_url", "url", "data:video/jpeg;base64,"+png+",aGVsbG8=", ""), "frame 1: "},
		{of("video_url", "url", "data:video/jpeg;base64,"+strings.Repeat("AA==,", 128)+"AA==", ""), "129 frames, want at most 128"},
		{of("video_url", "url", list, `,"fps":0`), "fps"},
		{`{"type":"video_url"}`, "video_url: missing"},
	} {
		status, b, _ := s.Do("POST", "/v1/chat/completions", body(c.part))
		if status != 400 || !strings.Contains(string(b), c.want) {
			t.Errorf("%d %.300s, want %s", status, b, c.want)
		}
	}
	blind := fake.New(t, "Hello", nil)
	if status, b, _ := blind.Do("POST", "/v1/chat/completions", body(of("video_url", "url", list, ""))); status != 400 || !strings.Contains(string(b), "the request has a video: want a model that sees") {
		t.Errorf("a blind model: %d %s", status, b)
	}
	for path, part := range map[string]string{
		"/v1/chat/completions": of("file", "file_data", list, ""),
		"/v1/messages":         `{"type":"document","source":{"type":"url","url":"` + list + `"}}`,
	} {
		status, b, _ := blind.Do("POST", path, body(part))
		if status != 400 || !strings.Contains(string(b), "the request has a video: want a model that sees") {
			t.Errorf("%s: a video as a document for a blind model: %d %s", path, status, b)
		}
	}
}

// Every API that can say so takes a video, and makes the same prompt of it.
func TestVideosInEveryAPI(t *testing.T) {
	t.Parallel()
	s := seeing(t, "text/qwen3vl-4k.gguf", "mm/qwen3vl-f16.gguf")
	png, gif := inBase64(t, "small-224x160.png"), inBase64(t, "two-frames-160x120.gif")
	frames := png + "," + png + "," + png + "," + png
	url := "data:video/jpeg;base64," + frames
	type usage struct {
		Prompt    int `json:"prompt_tokens"`
		Input     int `json:"input_tokens"`
		CacheRead int `json:"cache_read_input_tokens"`
		Details   struct {
			Image int `json:"image_tokens"`
		} `json:"prompt_tokens_details"`
		InputDetails struct {
			Image int `json:"image_tokens"`
		} `json:"input_tokens_details"`
	}
	type answered struct {
		Usage   usage
		Count   int `json:"input_tokens"`
		Evals   int `json:"prompt_eval_count"`
		Tokens  int `json:"tokens_evaluated"`
		Message struct{ Content string }
		Choices []struct{ Message struct{ Content string } }
		Content any
		Output  []struct{ Content []struct{ Text string } }
	}
	said := `{"type":"text","text":"What moves?"}`
	chat := func(part string) string {
		return `{"max_tokens":4,"temperature":0,"messages":[{"role":"user","content":[` + part + `,` + said + `]}]}`
	}
	first := fake.Post[answered](s, "/v1/chat/completions", chat(`{"type":"video_url","video_url":{"url":"`+url+`"}}`))
	n, images, says := first.Usage.Prompt, first.Usage.Details.Image, first.Choices[0].Message.Content
	still := fake.Post[answered](s, "/v1/chat/completions", chat(`{"type":"image_url","image_url":{"url":"data:image/png;base64,`+png+`"}}`))
	if images == 0 || n == still.Usage.Prompt {
		t.Fatalf("%d tokens, %d of them of pictures; of a picture %+v", n, images, still)
	}
	prompt := func(a answered) int { return a.Usage.Prompt + a.Usage.Input + a.Usage.CacheRead + a.Count + a.Evals }
	responses := func(part string) string {
		return `{"max_output_tokens":4,"temperature":0,"input":[{"role":"user","content":[` + part + `,{"type":"input_text","text":"What moves?"}]}]}`
	}
	ollama := `{"stream":false,"options":{"num_predict":4,"temperature":0},"messages":[{"role":"user","content":"What moves?","images":["` + url + `"]}]}`
	for _, c := range []struct{ name, path, body string }{
		{"a file", "/v1/chat/completions", chat(`{"type":"file","file":{"file_data":"` + url + `"}}`)},
		{"responses", "/v1/responses", responses(`{"type":"input_video","video_url":"` + url + `","fps":2}`)},
		{"responses with an object", "/v1/responses", responses(`{"type":"input_video","video_url":{"url":"` + url + `"}}`)},
		{"responses with a file", "/v1/responses", responses(`{"type":"input_file","file_data":"` + url + `"}`)},
		{"anthropic", "/v1/messages", chat(`{"type":"video","source":{"type":"base64","media_type":"video/jpeg","data":"` + frames + `"}}`)},
		{"anthropic with a URL", "/v1/messages", chat(`{"type":"video","source":{"type":"url","url":"` + url + `"}}`)},
		{"anthropic counted", "/v1/messages/count_tokens", chat(`{"type":"video","source":{"type":"url","url":"` + url + `"}}`)},
		{"ollama", "/api/chat", ollama},
	} {
		got := fake.Post[answered](s, c.path, c.body)
		if prompt(got) != n {
			t.Errorf("%s: %+v, want %d tokens", c.name, got, n)
		}
		answer := got.Message.Content
		switch {
		case len(got.Choices) > 0:
			answer = got.Choices[0].Message.Content
		case len(got.Output) > 0:
			answer = got.Output[0].Content[0].Text
		case got.Content != nil:
			answer, _ = got.Content.([]any)[0].(map[string]any)["text"].(string)
		}
		if got.Count == 0 && answer != says {
			t.Errorf("%s: says %q, want %q", c.name, answer, says)
		}
	}
	// A rate moves the times, in Responses as in chat completions.
	slow := fake.Post[answered](s, "/v1/chat/completions", chat(`{"type":"video_url","video_url":{"url":"`+url+`","fps":0.01}}`))
	if got := fake.Post[answered](s, "/v1/responses", responses(`{"type":"input_video","video_url":"`+url+`","fps":0.01}`)); prompt(got) != slow.Usage.Prompt || prompt(got) == n {
		t.Errorf("slowly %d tokens, want %d, and else %d", prompt(got), slow.Usage.Prompt, n)
	}
	// Results of tools have videos too.
	called := fake.Post[answered](s, "/v1/responses", `{"max_output_tokens":1,"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_video","video_url":"`+url+`"}]}]}`)
	if called.Usage.InputDetails.Image != images {
		t.Errorf("%+v, want %d", called, images)
	}
	var props struct {
		Marker string `json:"media_marker"`
	}
	if err := json.Unmarshal(s.Get("/props"), &props); err != nil {
		t.Fatal(err)
	}
	raw := func(source string) int {
		return fake.Post[answered](s, "/completion", `{"n_predict":1,"prompt":{"prompt_string":"`+props.Marker+`What moves?","multimodal_data":["`+source+`"]}}`).Tokens
	}
	if moving, one := raw(url), raw(png); moving-one != n-still.Usage.Prompt {
		t.Errorf("/completion: %d tokens, of a picture %d; in chat %d and %d", moving, one, n, still.Usage.Prompt)
	}
	if animation, picture := raw("data:video/gif;base64,"+gif), raw(gif); animation == picture {
		t.Errorf("/completion: an animation is a picture, %d tokens", animation)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/responses", responses(`{"type":"input_video","fps":1}`), "video_url: missing"},
		{"/v1/responses", responses(`{"type":"input_video","video_url":"` + url + `","fps":0}`), "fps: the number 0"},
		{"/v1/responses", responses(`{"type":"input_video","video_url":7}`), "video_url"},
		{"/v1/messages", chat(`{"type":"video","source":{"type":"base64","media_type":"video/mp4","data":"AAAAGGZ0eXBtcDQyAAAAAA=="}}`), "MP4 is not read as a video"},
		{"/v1/messages", chat(`{"type":"video","source":{"type":"base64"}}`), "of type base64, and empty"},
		{"/completion", `{"prompt":{"prompt_string":"` + props.Marker + `","multimodal_data":["data:video/jpeg;base64,` + png + `,!"]}}`, "frame 1 is not in base64"},
	} {
		status, b, _ := s.Do("POST", c.path, c.body)
		if status != 400 || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %d %.300s, want %s", c.path, status, b, c.want)
		}
	}
}

// Choices behind a picture are as likely as the tokens of a prompt that has both, and vectors are of both.
func TestSeeingIsRead(t *testing.T) {
	t.Parallel()
	for text, eyes := range map[string]string{"text/qwen3vl-4k.gguf": "mm/qwen3vl-f16.gguf", "../archs/gemma3.gguf": "mm/gemma3-f16.gguf"} {
		s := fake.Demo(t, fake.Setup{
			File: testdata.Path(t, filepath.Join("mmproj", text)), Projector: testdata.Path(t, filepath.Join("mmproj", eyes)),
			Model: func(m *ask.Model) { m.Pooling, m.Normalize, m.Info.NEmbd = nn.PoolLast, engine.Euclidean, 64 },
		})
		png, other := inBase64(t, "small-224x160.png"), inBase64(t, "shapes-640x488.png")
		picture := func(data string) map[string]any {
			return map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + data}}
		}
		messages := []any{map[string]any{"role": "user", "content": []any{picture(png), map[string]any{"type": "text", "text": "What is it?"}}}}
		rendered := fake.Post[struct{ Prompt string }](s, "/apply-template", object(t, map[string]any{"messages": messages})).Prompt
		type decided struct {
			Decisions []struct {
				Choices []struct {
					Text    string
					Logprob float64
					Tokens  int
				}
			}
		}
		choices := []string{" blue", "ness", " of the"}
		got := fake.Post[decided](s, "/v1/decisions", object(t, map[string]any{"messages": messages, "choices": choices, "ends": false}))
		prompt := func(text, data string) map[string]any {
			return map[string]any{"prompt_string": text, "multimodal_data": []string{data}}
		}
		for i, c := range got.Decisions[0].Choices {
			read := fake.Post[struct {
				Usage struct {
					Prompt int `json:"prompt_tokens"`
				}
				Choices []struct {
					Prompt []map[string]struct{ Logprob float64 } `json:"prompt_logprobs"`
				}
			}](s, "/v1/completions", object(t, map[string]any{"prompt": prompt(rendered+choices[i], png), "prompt_logprobs": 0, "max_tokens": 1}))
			all := read.Choices[0].Prompt
			unknown, sum := 0, 0.0
			for k, one := range all {
				if one == nil {
					unknown++
				}
				for _, p := range one {
					if k >= len(all)-c.Tokens {
						sum += p.Logprob
					}
				}
			}
			if len(all) != read.Usage.Prompt || unknown < 4 || unknown == len(all) {
				t.Errorf("%s: %d of %d tokens are of a picture", text, unknown, len(all))
			}
			if c.Tokens == 0 || math.Abs(sum-c.Logprob) > 1e-4*math.Abs(sum) {
				t.Errorf("%s: %q has %v, its %d tokens in a prompt %v", text, c.Text, c.Logprob, c.Tokens, sum)
			}
		}
		blue := fake.Post[decided](s, "/v1/decisions", object(t, map[string]any{"messages": messages, "prior": "N/A", "questions": []any{
			map[string]any{"prompt": "Which colour?", "choices": choices}, map[string]any{"prompt": "Which form?", "choices": choices},
		}}))
		if len(blue.Decisions) != 2 {
			t.Errorf("%s: %+v", text, blue)
		}
		echoed := fake.Post[struct {
			Choices []struct {
				Logprobs struct {
					Logprobs []*float64 `json:"token_logprobs"`
					Tokens   []string
				}
			}
		}](s, "/v1/completions", object(t, map[string]any{"prompt": prompt(rendered, png), "echo": true, "logprobs": 1, "max_tokens": 1})).Choices[0].Logprobs
		if n := len(echoed.Tokens); n < 10 || len(echoed.Logprobs) != n || echoed.Logprobs[0] != nil || echoed.Logprobs[n-1] == nil || !slices.Contains(echoed.Logprobs[1:], nil) {
			t.Errorf("%s: %+v", text, echoed)
		}
		vectors := fake.Post[struct {
			Data  []struct{ Embedding []float64 }
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			}
		}](s, "/v1/embeddings", object(t, map[string]any{"input": []any{
			prompt("a "+ask.MediaMarker, png), prompt("a "+ask.MediaMarker, other), prompt("a "+ask.MediaMarker, png), "a ",
		}, "truncate_prompt_tokens": -1}))
		v := func(i int) string { return fmt.Sprint(vectors.Data[i].Embedding) }
		if len(vectors.Data) != 4 || v(0) != v(2) || v(0) == v(1) || v(0) == v(3) || vectors.Usage.Prompt < 3*8 {
			t.Errorf("%s: %d vectors of %d tokens: %.100s %.100s %.100s %.100s", text, len(vectors.Data), vectors.Usage.Prompt, v(0), v(1), v(2), v(3))
		}
		if status, b, _ := s.Do("POST", "/v1/embeddings", object(t, map[string]any{"input": prompt(ask.MediaMarker, png), "truncate_prompt_tokens": 5})); status != 400 || !strings.Contains(string(b), "truncate_prompt_tokens") {
			t.Errorf("%s: %d %s", text, status, b)
		}
	}
}

// A model that is blind is told of the pictures of tools, of which the client of tools knows nothing.
func TestBlindToTools(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	png := inBase64(t, "dot-1x1.png")
	call := `{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[` + call + `,{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"Here."},{"type":"image_url","image_url":{"url":"` + png + `"}}]}]}`,
		"/v1/messages":         `{"max_tokens":1,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"Here."},{"type":"image","source":{"type":"base64","data":"` + png + `"}}]}]}]}`,
		"/v1/responses":        `{"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"Here."},{"type":"input_image","image_url":"` + png + `"}]}]}`,
		"/api/chat":            `{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"Here.","tool_name":"f","images":["` + png + `"]}]}`,
	} {
		if status, b, _ := s.Do("POST", path, body); status != 200 {
			t.Errorf("%s: %d %s", path, status, b)
			continue
		}
		if got := s.Tok.Detokenize(s.Last().Prompt, true); !strings.Contains(got, "Here.") || !strings.Contains(got, ", which this model cannot read)") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// What the server tells of a model that sees.
func TestSeeingIsTold(t *testing.T) {
	t.Parallel()
	s := seeing(t, "text/qwen3vl-4k.gguf", "mm/qwen3vl-f16.gguf")
	props := fake.Parse[struct {
		Modalities  map[string]bool
		MediaMarker string `json:"media_marker"`
	}](t, s.Get("/props"))
	if !props.Modalities["vision"] || props.Modalities["audio"] || props.MediaMarker != ask.MediaMarker {
		t.Errorf("%+v", props)
	}
	list := string(s.Get("/v1/models"))
	if !strings.Contains(list, `"input_modalities":["text","image"]`) || !strings.Contains(list, `"capabilities":["completion","multimodal"]`) {
		t.Error(list)
	}
	_, show, _ := s.Do("POST", "/api/show", `{"model":"demo"}`)
	if !strings.Contains(string(show), `"vision"`) || strings.Contains(string(show), `"audio"`) {
		t.Errorf("%s", show)
	}
}

// Media that cannot be taken are refused in a line that says what would work.
func TestSeeingRefuses(t *testing.T) {
	t.Parallel()
	s := seeing(t, "text/qwen3vl-4k.gguf", "mm/qwen3vl-f16.gguf")
	image := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	ask := func(parts string) string {
		return `{"max_tokens":1,"messages":[{"role":"user","content":[` + parts + `]}]}`
	}
	dot := image("data:image/png;base64," + inBase64(t, "dot-1x1.png"))
	pdf := base64.StdEncoding.EncodeToString([]byte("%PDF-1.7 x"))
	for _, c := range []struct{ body, want string }{
		{ask(strings.Repeat(dot+",", 32) + dot), "33 pictures, sounds and documents, want at most 32"},
		{ask(image("data:image/png;base64,aGVsbG8=")), "medium 1 of 1: neither a picture nor a sound that is known; want a picture as PNG"},
		{ask(image("data:image/png,xx")), "not in base64"},
		{ask(dot + "," + image("data:image/png;base64,iVBORw0KGgo=")), "damaged PNG"},
		{ask(image("http://127.0.0.1:1/x.png")), "URL"},
		{ask(image("file:///etc/passwd")), "URL"},
		{ask(image("gopher://x/y")), "a URL of"},
		{ask(`{"type":"input_audio","input_audio":{"data":"` + inBase64(t, "tone-8k-mono-u8.wav") + `","format":"wav"}}`), "has no encoder for a sound"},
		{ask(image(inBase64(t, "tone-8k-mono-u8.wav"))), "has no encoder for a sound"},
		{ask(`{"type":"file","file":{"file_data":"data:application/pdf;base64,` + pdf + `"}}`), "PDF: not a document that can be read: damaged: no pages are found in it"},
		{ask(`{"type":"file","file":{"file_id":"file-1"}}`), "this server keeps no files"},
	} {
		status, b, _ := s.Do("POST", "/v1/chat/completions", c.body)
		if status != 400 || !strings.Contains(string(b), c.want) || strings.Contains(fake.ErrorOf(t, b).Message, "\n") {
			t.Errorf("%.200s: %d %s, want %s", c.body, status, b, c.want)
		}
	}
	text := `{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,` + base64.StdEncoding.EncodeToString([]byte("a text")) + `"}}`
	if status, b, _ := s.Do("POST", "/v1/chat/completions", ask(text)); status != 200 {
		t.Errorf("a document that is a text: %d %s", status, b)
	}
}
