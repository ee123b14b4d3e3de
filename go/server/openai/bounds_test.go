package openai_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A file that is sent is there as it was, for as long as no one removes it, and batches of it end in time.
func TestFilesOverHTTP(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Batches: store}})
	const text = "{\"custom_id\":\"a\"}\n"
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("purpose", "batch")
	part, _ := w.CreateFormFile("file", "in.jsonl")
	_, _ = io.WriteString(part, text)
	w.Close()
	resp, err := http.Post(s.URL+"/v1/files", w.FormDataContentType(), &form)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
	f := fake.Parse[struct {
		ID, Filename, Purpose string
		Bytes                 int
	}](t, b)
	if f.Bytes != len(text) || f.Filename != "in.jsonl" || f.Purpose != "batch" {
		t.Errorf("%+v", f)
	}
	if got := s.Get("/v1/files/" + f.ID + "/content"); string(got) != text {
		t.Errorf("the content is %q", got)
	}
	for _, path := range []string{"/v1/files/file-none", "/v1/files/file-none/content", "/v1/batches/batch_none"} {
		if status, b, _ := s.Do("GET", path, ""); status != 404 {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	body := `{"input_file_id":"` + f.ID + `","endpoint":"/v1/completions","completion_window":"%s"}`
	for window, ok := range map[string]bool{"1s": true, "999ms": false, "720h": true, "720h0m1s": false, "24h": true, "": false, "-1h": false} {
		status, b, _ := s.Do("POST", "/v1/batches", fmt.Sprintf(body, window))
		if (status == 200) != ok || !ok && fake.ErrorOf(t, b).Param != "completion_window" {
			t.Errorf("a window of %q: %d %s", window, status, b)
		}
	}
	s.Refused("/v1/batches", `{"input_file_id":"`+f.ID+`","endpoint":"/v1/files","completion_window":"24h"}`, 400, "endpoint")
}

// Only text can be asked for, and ranks of a prompt come with any number of alternatives.
func TestModalities(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	fake.Post[struct{}](s, "/v1/chat/completions", `{`+fake.Hi+`,"modalities":["text"]}`)
	for _, other := range []string{`["audio"]`, `["text","audio"]`, `[]`, `"text"`} {
		s.Refused("/v1/chat/completions", `{`+fake.Hi+`,"modalities":`+other+`}`, 400, "modalities")
	}
	for fields, ok := range map[string]bool{`"best_of":1`: true, `"best_of":2`: false, `"best_of":2,"n":2`: true, `"best_of":3,"n":2`: false} {
		if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"x","max_tokens":1,`+fields+`}`); (status == 200) != ok {
			t.Errorf("%s: %d %s", fields, status, b)
		}
	}
	type one struct {
		Logprob float64
		Rank    *int
	}
	for _, n := range []int{0, 1} {
		got := fake.Post[struct {
			Choices []struct {
				Prompt []map[int32]one `json:"prompt_logprobs"`
			}
		}](s, "/v1/completions", fmt.Sprintf(`{"prompt":"Hello","max_tokens":1,"prompt_logprobs":%d}`, n)).Choices[0].Prompt
		if len(got) < 2 || got[0] != nil {
			t.Fatalf("%d: %v", n, got)
		}
		for _, at := range got[1:] {
			for id, one := range at {
				if one.Rank == nil || *one.Rank < 1 {
					t.Errorf("with %d alternatives token %d has the rank %v", n, id, one.Rank)
				}
			}
		}
	}
}
