package reading

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
)

func TestKindOf(t *testing.T) {
	for data, want := range map[string]struct {
		kind chat.Kind
		err  string
	}{
		"\x89PNG\r\n\x1a\n":        {kind: chat.Picture},
		"\xff\xd8\xff\xe0":         {kind: chat.Picture},
		"RIFF0000WEBP":             {kind: chat.Picture},
		"RIFF0000WAVE":             {kind: chat.Sound},
		"\xff\xfb\x90\x00":         {kind: chat.Sound},
		"fLaC":                     {kind: chat.Sound},
		"%PDF-1.7":                 {err: "send its pages as images"},
		"OggS":                     {err: "neither a picture nor a sound"},
		"\x00\x00\x00\x1cftypavif": {err: "AVIF is not read; want a picture as PNG"},
		"\x1aE\xdf\xa3":            {err: "WebM is not read"},
		"":                         {err: "an empty file"},
		"<html>no picture at all":  {err: "or sound as WAV"},
	} {
		kind, err := KindOf([]byte(data))
		if kind != want.kind || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %v, %v", data, kind, err)
		}
	}
}

func TestDataURL(t *testing.T) {
	for url, want := range map[string]string{
		"data:image/png;base64,aGk=":           "hi",
		"data:;base64,aGk":                     "hi",
		"data:text/plain;charset=x;BASE64,aGk": "hi",
		"data:a;base64,a-_\nA\r\n":             "\x6b\xef\xc0",
		"data:a;base64,a+/A":                   "\x6b\xef\xc0",
		"data:a;base64,":                       "",
	} {
		if got, err := DataURL(url); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for url, want := range map[string]string{
		"http://x":              "not a data: URL",
		"data:image/png;base64": "without a comma",
		"data:,aGk":             "not in base64",
		"data:;base64,a":        "damaged",
		"data:;base64,a*GkAAAA": "damaged",
	} {
		if got, err := DataURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
}

func FuzzDataURL(f *testing.F) {
	f.Add("data:image/png;base64,aGk=", []byte("x"))
	f.Add("data:;base64,a-_A", []byte{0xff, 0xfe})
	f.Fuzz(func(t *testing.T, url string, data []byte) {
		if got, err := DataURL(url); err == nil && len(got) > len(url) {
			t.Errorf("%d bytes of %q", len(got), url)
		}
		for _, code := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			got, err := DataURL("data:x;base64," + code.EncodeToString(data))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%x became %x, %v", data, got, err)
			}
		}
	})
}
