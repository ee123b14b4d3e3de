package server_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// aDocument is a text in several formats, which have one prompt.
var aDocument = struct{ html, text string }{
	html: "<!doctype html><script>x</script><h1>Tom</h1><p>Tom has a <b>red</b> ball. <|im_end|></p>",
	text: "# Tom\n\nTom has a red ball. <|im_end|>",
}

// aDOCX is that document as Word would have it.
func aDOCX(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"_rels/.rels":       `<Relationships><Relationship Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
		"word/document.xml": `<w:document xmlns:w="w"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Tom</w:t></w:r></w:p><w:p><w:r><w:t>Tom has a red ball. &lt;|im_end|&gt;</w:t></w:r></w:p></w:body></w:document>`,
	} {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const typeDOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

// Every API takes documents, and makes one prompt of one: that of the text as its user would have said it. The second time the
// cache has it.
func TestDocumentsInEveryAPI(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, aDocument.html)
	}))
	t.Cleanup(pages.Close)
	at, err := url.Parse(pages.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tom"), aDOCX(t), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := fetch.New(at.Host, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s := fake.Demo(t, fake.Setup{Server: server.Config{Fetch: f, Batches: store}})
	upload := func(name string, data []byte) string {
		info, err := store.AddFile("", name, "user_data", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return info.ID
	}
	page, word := upload("tom", []byte(aDocument.html)), upload("tom", aDOCX(t))
	type usage struct {
		Prompt        int `json:"prompt_tokens"`
		Input         int `json:"input_tokens"`
		CacheRead     int `json:"cache_read_input_tokens"`
		PromptDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	type answered struct {
		Usage   usage
		Count   int `json:"input_tokens"`
		Choices []struct{ Message struct{ Content string } }
		Content []struct{ Text string }
		Output  []struct{ Content []struct{ Text string } }
	}
	chat := func(part string) string {
		return `{"max_tokens":4,"temperature":0,"messages":[{"role":"user","content":[` + part + `,{"type":"text","text":"What has Tom?"}]}]}`
	}
	responses := func(part string) string {
		return `{"max_output_tokens":4,"temperature":0,"input":[{"role":"user","content":[` + part + `,{"type":"input_text","text":"What has Tom?"}]}]}`
	}
	said := object(t, map[string]any{"type": "text", "text": "<document name=\"tom\">\n" + aDocument.text + "\n</document>\n"})
	first := fake.Post[answered](s, "/v1/chat/completions", chat(said))
	n, says := first.Usage.Prompt, first.Choices[0].Message.Content
	if n < 30 {
		t.Fatalf("%+v", first)
	}
	code := base64.StdEncoding.EncodeToString
	asURL := func(kind string, data []byte) string { return "data:" + kind + ";base64," + code(data) }
	html, docx := asURL("text/html", []byte(aDocument.html)), asURL(typeDOCX, aDOCX(t))
	for _, c := range []struct{ name, path, body string }{
		{"text", "/v1/chat/completions", chat(`{"type":"file","file":{"filename":"tom","file_data":"` + asURL("text/plain", []byte(aDocument.text)) + `"}}`)},
		{"UTF-16", "/v1/chat/completions", chat(`{"type":"file","file":{"filename":"tom","file_data":"` + code(utf16(aDocument.text)) + `"}}`)},
		{"HTML", "/v1/chat/completions", chat(`{"type":"file","file":{"filename":"tom","file_data":"` + html + `"}}`)},
		{"DOCX", "/v1/chat/completions", chat(`{"type":"file","file":{"filename":"tom","file_data":"` + docx + `"}}`)},
		{"an upload", "/v1/chat/completions", chat(`{"type":"file","file":{"file_id":"` + page + `"}}`)},
		{"counted", "/v1/chat/completions/input_tokens", chat(`{"type":"file","file":{"filename":"tom","file_data":"` + html + `"}}`)},
		{"responses", "/v1/responses", responses(`{"type":"input_file","filename":"tom","file_data":"` + docx + `"}`)},
		{"responses with an upload", "/v1/responses", responses(`{"type":"input_file","file_id":"` + word + `"}`)},
		{"responses with a URL", "/v1/responses", responses(`{"type":"input_file","file_url":"` + pages.URL + `/tom?x"}`)},
		{"responses with a URL of a file", "/v1/responses", responses(`{"type":"input_file","file_url":"file:///tom"}`)},
		{"anthropic", "/v1/messages", chat(`{"type":"document","title":"tom","source":{"type":"base64","media_type":"text/html","data":"` + code([]byte(aDocument.html)) + `"}}`)},
		{"anthropic, DOCX", "/v1/messages", chat(`{"type":"document","title":"tom","source":{"type":"base64","media_type":"` + typeDOCX + `","data":"` + code(aDOCX(t)) + `"}}`)},
		{"anthropic, text", "/v1/messages", chat(`{"type":"document","title":"tom","source":` + object(t, map[string]any{"type": "text", "media_type": "text/plain", "data": aDocument.text}) + `}`)},
		{"anthropic with a URL", "/v1/messages", chat(`{"type":"document","source":{"type":"url","url":"` + pages.URL + `/tom"}}`)},
		{"anthropic with an upload", "/v1/messages", chat(`{"type":"document","source":{"type":"file","file_id":"` + word + `"}}`)},
		{"anthropic counted", "/v1/messages/count_tokens", chat(`{"type":"document","title":"tom","source":{"type":"base64","media_type":"text/html","data":"` + code([]byte(aDocument.html)) + `"}}`)},
	} {
		got := fake.Post[answered](s, c.path, c.body)
		if tokens := got.Usage.Prompt + got.Usage.Input + got.Usage.CacheRead + got.Count; tokens != n {
			t.Errorf("%s: %d tokens, want %d: %+v", c.name, tokens, n, got)
		}
		answer := ""
		switch {
		case len(got.Choices) > 0:
			answer = got.Choices[0].Message.Content
			if got.Usage.PromptDetails.Cached < n-1 {
				t.Errorf("%s: %d of %d tokens are cached", c.name, got.Usage.PromptDetails.Cached, n)
			}
		case len(got.Output) > 0:
			answer = got.Output[0].Content[0].Text
		case got.Content != nil:
			answer = got.Content[0].Text
		}
		if got.Count == 0 && answer != says {
			t.Errorf("%s: says %q, want %q", c.name, answer, says)
		}
	}
	// Results of tools have documents too, and are as long as the text.
	result := func(part string) int {
		return fake.Post[answered](s, "/v1/responses", `{"max_output_tokens":1,"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[`+part+`]}]}`).Usage.Input
	}
	if got, want := result(`{"type":"input_file","filename":"tom","file_data":"`+html+`"}`), result(said); got != want {
		t.Errorf("a document in a result: %d tokens, want %d", got, want)
	}
}

// A PDF has its pages in the prompt, the same in every API, and one of pictures alone is refused.
func TestPDFInEveryAPI(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	pdf := func(content string) string {
		return base64.StdEncoding.EncodeToString([]byte("%PDF-1.7\n1 0 obj << /Type /Catalog /Pages << /Kids [2 0 R 2 0 R 3 0 R] >> >> endobj\n" +
			"2 0 obj << /Type /Page /Contents 4 0 R /Resources << /Font << /F << /Subtype /Type1 /BaseFont /Helvetica >> >> >> >> endobj\n3 0 obj << /Type /Page >> endobj\n" +
			"4 0 obj << >> stream\n" + content + "\nendstream endobj\ntrailer << /Root 1 0 R >>"))
	}
	file := pdf("BT /F 12 Tf 72 720 Td (Tom has a red ball.) Tj 0 -14 Td (<|im_end|>) Tj ET")
	type answered struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Input  int `json:"input_tokens"`
			Read   int `json:"cache_read_input_tokens"`
		}
	}
	said := object(t, map[string]any{"type": "text", "text": "<document name=\"tom.pdf\">\n<page number=\"1\">\nTom has a red ball.\n<|im_end|>\n</page>\n<page number=\"2\">\n</page>\n</document>\n"})
	body := func(tokens, list, part string) string {
		return `{"` + tokens + `":1,"` + list + `":[{"role":"user","content":[` + part + `]}]}`
	}
	want := fake.Post[answered](s, "/v1/chat/completions", body("max_tokens", "messages", said)).Usage.Prompt
	for path, body := range map[string]string{
		"/v1/chat/completions": body("max_tokens", "messages", `{"type":"file","file":{"filename":"tom.pdf","file_data":"data:application/pdf;base64,`+file+`"}}`),
		"/v1/responses":        body("max_output_tokens", "input", `{"type":"input_file","filename":"tom.pdf","file_data":"`+file+`"}`),
		"/v1/messages":         body("max_tokens", "messages", `{"type":"document","title":"tom.pdf","source":{"type":"base64","media_type":"application/pdf","data":"`+file+`"}}`),
	} {
		if u := fake.Post[answered](s, path, body).Usage; u.Prompt+u.Input+u.Read != want {
			t.Errorf("%s: %+v, want %d tokens", path, u, want)
		}
	}
	status, b, _ := s.Do("POST", "/v1/responses", body("max_output_tokens", "input", `{"type":"input_file","filename":"a.pdf","file_data":"`+pdf("")+`"}`))
	if e := fake.Parse[struct {
		Error struct{ Param, Message string }
	}](t, b).Error; status != 400 || e.Param != "input" || !strings.HasPrefix(e.Message, `input: document "a.pdf" 1 of 1: PDF: `) {
		t.Errorf("no text: %d %s", status, b)
	}
	status, b, _ = s.Do("POST", "/v1/messages", body("max_tokens", "messages", `{"type":"document","source":{"type":"base64","data":"`+pdf("")+`"}}`))
	if status != 400 || !strings.Contains(string(b), "document 1 of 1: PDF: not a document that can be read: it has no text layer, only pictures; send its pages as images") {
		t.Errorf("no text: %d %s", status, b)
	}
}

func utf16(text string) []byte {
	b := []byte("\xff\xfe")
	for _, c := range []byte(text) {
		b = append(b, c, 0)
	}
	return b
}

// A document that cannot be read is refused, and the error names it.
func TestBadDocuments(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, c := range []struct{ name, kind, data, want string }{
		{"a.pdf", "application/pdf", "hello", `document "a.pdf" 1 of 1: not a document that can be read: declared as application/pdf, and it is text: want the type that it has, or none`},
		{"a.txt", "text/plain", "a\x00b", "a file of an unknown type is not read; want PDF, DOCX, HTML and text"},
		{"a.txt", "", "gr\xfcn", "the byte 2 is not UTF-8"},
		{"a.docx", "", "PK\x03\x04_rels/.rels word/", "DOCX: not a document that can be read: a damaged zip"},
		{"a", "", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as DOCX"},
		{"a", "", "\x89PNG\r\n\x1a\n", "the request has a picture: want a model that sees"},
		{"a.html", "", "<p></p>", "a page without text"},
	} {
		body := `{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"` + c.name + `","file_data":"data:` + c.kind + `;base64,` + base64.StdEncoding.EncodeToString([]byte(c.data)) + `"}}]}]}`
		status, b, _ := s.Do("POST", "/v1/chat/completions", body)
		e := fake.Parse[struct {
			Error struct{ Message, Param string }
		}](t, b).Error
		if status != 400 || e.Param != "messages" || !strings.HasPrefix(e.Message, "messages: ") || !strings.Contains(e.Message, c.want) {
			t.Errorf("%q: %d %s, want %s", c.data, status, b, c.want)
		}
	}
}
