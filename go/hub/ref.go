package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
)

// A Kind is a kind of server.
type Kind int

const (
	HuggingFace Kind = iota
	Ollama
	OCI
	Web // a file at a URL
)

// A Ref names a model on a server.
type Ref struct {
	Kind Kind
	Host string // of OCI
	Repo string // ORG/REPO; of Ollama library/NAME or USER/NAME
	Rev  string // of Hugging Face; empty: main
	Tag  string // the quantization, the tag or sha256:DIGEST; empty: the default
	File string // of Hugging Face: the path of a file, in place of a tag
	URL  string // of Web
	Sum  string // of Web: the SHA-256 that the file must have, empty if none is given
}

// ErrNoRef reports a name without a server.
var ErrNoRef = errors.New("names of models to download begin with hf.co/, ollama.com/, oci:// or https://")

// The most bytes of a name, and of a URL, which may have a signature and a session's token.
const (
	maxRef = 1 << 10
	maxURL = 8 << 10
)

// The forms of names. None can be a path that leaves a folder.
var (
	component = form(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	tagForm   = component
	hostForm  = form(`^([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(:[0-9]{1,5})?$`)
	nameForm  = form(`^([a-z0-9][a-z0-9_-]{0,63}/)?[a-z0-9][a-z0-9_.-]{1,79}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,79})?$`)
	sumForm   = form(`^[0-9a-f]{64}$`)
)

// form returns whether texts have the form of a regular expression. It is compiled when it is first asked: most processes
// ask none of them, and to compile all took a tenth of what a process needs to begin.
func form(expression string) func(text string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
	return func(text string) bool { return compiled().MatchString(text) }
}

// prefixes maps the prefixes of names to the parsers of the rest.
var prefixes = []struct {
	text  string
	parse func(rest string) (Ref, error)
}{
	{"hf.co/", parseHF}, {"huggingface.co/", parseHF}, {"hf://", parseHF},
	{"https://hf.co/", parseHFPage}, {"https://huggingface.co/", parseHFPage},
	{"ollama.com/", parseOllama}, {"registry.ollama.ai/", parseOllama}, {"ollama://", parseOllama}, {"https://ollama.com/", parseOllama},
	{"oci://", parseOCI}, {"docker://", parseOCI},
	{"https://", func(rest string) (Ref, error) { return parseWeb("https://" + rest) }},
	{"http://", func(rest string) (Ref, error) { return parseWeb("http://" + rest) }},
}

// ParseRef parses the name of a model on a server. A name without a server gives an error that wraps
// ErrNoRef.
func ParseRef(s string) (Ref, error) {
	most := maxRef
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		most = maxURL
	}
	if len(s) > most {
		return Ref{}, fmt.Errorf("a name of %d bytes, want at most %d", len(s), most)
	}
	for _, p := range prefixes {
		rest, ok := strings.CutPrefix(s, p.text)
		if !ok {
			continue
		}
		r, err := p.parse(rest)
		if err != nil {
			return Ref{}, fmt.Errorf("%q: %w", withoutQuery(s), err)
		}
		return r, nil
	}
	return Ref{}, fmt.Errorf("%q: %w", s, ErrNoRef)
}

// Guess returns what a word most likely names, if it has the form of a model's name as Ollama's users type it: NAME, NAME:TAG
// or USER/NAME, in lower case. Else it returns "".
func Guess(word string) string {
	if !nameForm(word) {
		return ""
	}
	return "ollama.com/" + word
}

// parseHF parses ORG/REPO[@REV][:QUANT|/FILE].
func parseHF(s string) (Ref, error) {
	const want = "want hf.co/ORG/REPO, with :QUANT or /FILE.gguf behind it"
	org, rest, _ := strings.Cut(s, "/")
	repo, file, named := strings.Cut(rest, "/")
	r := Ref{Kind: HuggingFace}
	if named {
		if err := checkPath(file); err != nil {
			return Ref{}, err
		}
		if !strings.HasSuffix(file, ".gguf") {
			return Ref{}, fmt.Errorf("the file %q is no .gguf file", file)
		}
		r.File = file
	} else if name, tag, tagged := strings.Cut(repo, ":"); tagged {
		if !tagForm(tag) {
			return Ref{}, fmt.Errorf("the quantization %q, want one such as Q4_K_M", tag)
		}
		if repo = name; !strings.EqualFold(tag, "latest") {
			r.Tag = tag
		}
	}
	if name, rev, ok := strings.Cut(repo, "@"); ok {
		if repo = name; !component(rev) || strings.Contains(rev, "..") {
			return Ref{}, fmt.Errorf("the revision %q, want a branch, a tag or a commit", rev)
		}
		r.Rev = rev
	}
	if !isComponent(org) || !isComponent(repo) {
		return Ref{}, errors.New(want)
	}
	r.Repo = org + "/" + repo
	return r, nil
}

// parseHFPage parses the path of a page's URL: ORG/REPO, or ORG/REPO/blob/REV/FILE as in a browser.
func parseHFPage(s string) (Ref, error) {
	s, _, _ = strings.Cut(s, "?")
	s = strings.TrimSuffix(s, "/")
	parts := strings.SplitN(s, "/", 5)
	if len(parts) == 5 && (parts[2] == "blob" || parts[2] == "resolve") {
		file, err := url.PathUnescape(parts[4])
		if err != nil {
			return Ref{}, err
		}
		rev := ""
		if parts[3] != "main" {
			rev = "@" + parts[3]
		}
		return parseHF(parts[0] + "/" + parts[1] + rev + "/" + file)
	}
	if len(parts) > 2 && parts[2] == "tree" {
		parts = parts[:2]
	}
	return parseHF(strings.Join(parts, "/"))
}

// parseOllama parses NAME[:TAG] or USER/NAME[:TAG].
func parseOllama(s string) (Ref, error) {
	repo, tag, tagged := strings.Cut(s, ":")
	if tagged && !tagForm(tag) {
		return Ref{}, fmt.Errorf("the tag %q, want one such as 8b", tag)
	}
	if !tagged {
		tag = "latest"
	}
	if !strings.Contains(repo, "/") {
		repo = "library/" + repo
	}
	user, name, _ := strings.Cut(repo, "/")
	if !isComponent(user) || !isComponent(name) {
		return Ref{}, errors.New("want ollama.com/NAME[:TAG] or ollama.com/USER/NAME[:TAG]")
	}
	return Ref{Kind: Ollama, Repo: repo, Tag: tag}, nil
}

// parseOCI parses HOST/REPO[:TAG|@sha256:DIGEST].
func parseOCI(s string) (Ref, error) {
	host, repo, ok := strings.Cut(s, "/")
	if !ok || !hostForm(host) {
		return Ref{}, errors.New("want oci://HOST/REPO[:TAG]")
	}
	r := Ref{Kind: OCI, Host: host, Tag: "latest"}
	if name, digest, pinned := strings.Cut(repo, "@"); pinned {
		sum, ok := strings.CutPrefix(digest, "sha256:")
		if !ok || !sumForm(sum) {
			return Ref{}, fmt.Errorf("the digest %q, want sha256: and 64 digits", digest)
		}
		repo, r.Tag = name, digest
	} else if name, tag, tagged := strings.Cut(repo, ":"); tagged {
		if !tagForm(tag) {
			return Ref{}, fmt.Errorf("the tag %q, want one such as latest", tag)
		}
		repo, r.Tag = name, tag
	}
	for _, part := range strings.Split(repo, "/") {
		if !isComponent(part) {
			return Ref{}, fmt.Errorf("the repository %q, want names with / between them", repo)
		}
	}
	r.Repo = repo
	return r, nil
}

// parseWeb parses a URL, with #sha256=SUM if the hash is known.
func parseWeb(s string) (Ref, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Ref{}, errors.New("it is no URL")
	}
	r := Ref{Kind: Web}
	if u.Fragment != "" {
		sum, ok := strings.CutPrefix(u.Fragment, "sha256=")
		if sum = strings.ToLower(sum); !ok || !sumForm(sum) {
			return Ref{}, fmt.Errorf("#%s, want #sha256= and 64 digits", u.Fragment)
		}
		r.Sum = sum
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Host == "" || u.User != nil {
		return Ref{}, errors.New("want a URL with a host, and without a password")
	}
	r.URL = u.String()
	if err := checkName(r.fileName()); err != nil {
		return Ref{}, err
	}
	return r, nil
}

// String returns the name that ParseRef accepts.
func (r Ref) String() string {
	switch r.Kind {
	case Ollama:
		return "ollama.com/" + r.Short()
	case OCI:
		return "oci://" + r.Host + "/" + r.Repo + r.suffix()
	case Web:
		return r.URL
	}
	return "hf.co/" + r.Short()
}

// Shown returns the name for messages: what is behind the ? of a URL may be a signature, which lets others in.
func (r Ref) Shown() string { return withoutQuery(r.String()) }

// Key returns a name that differs where Ref does, and shows nothing that Shown does not.
func (r Ref) Key() string {
	_, query, _ := strings.Cut(r.URL, "?")
	if query == "" && r.Sum == "" {
		return r.Shown()
	}
	sum := sha256.Sum256([]byte(query + "\x00" + r.Sum))
	return r.Shown() + "#" + hex.EncodeToString(sum[:6])
}

func withoutQuery(address string) string {
	before, _, _ := strings.Cut(address, "?")
	return before
}

// alike reports whether two names differ at most in case where their server is case-insensitive.
func alike(a, b string) bool {
	if !strings.EqualFold(a, b) {
		return false
	}
	r, err := ParseRef(a)
	s, err2 := ParseRef(b)
	return err == nil && err2 == nil && r.fold() == s.fold()
}

// fold returns the name in lower case, except for case-sensitive parts: names of registries and URLs,
// revisions and files of Hugging Face.
func (r Ref) fold() Ref {
	if r.Kind == HuggingFace || r.Kind == Ollama {
		r.Repo, r.Tag = strings.ToLower(r.Repo), strings.ToLower(r.Tag)
	}
	return r
}

// Short returns the name without its server, as other programs show it; for a URL, the file's name.
func (r Ref) Short() string {
	switch r.Kind {
	case Ollama:
		return strings.TrimSuffix(strings.TrimPrefix(r.Repo, "library/")+":"+r.Tag, ":latest")
	case OCI:
		return r.Repo + r.suffix()
	case Web:
		return strings.TrimSuffix(r.fileName(), ".gguf")
	}
	s := r.Repo
	if r.Rev != "" {
		s += "@" + r.Rev
	}
	switch {
	case r.File != "":
		s += "/" + r.File
	case r.Tag != "":
		s += ":" + r.Tag
	}
	return s
}

// suffix returns the tag or the digest of an OCI name.
func (r Ref) suffix() string {
	if strings.HasPrefix(r.Tag, "sha256:") {
		return "@" + r.Tag
	}
	return ":" + r.Tag
}

// fileName returns a name for a model's only file if the server has none.
func (r Ref) fileName() string {
	name := ""
	switch r.Kind {
	case Web:
		u, _ := url.Parse(r.URL)
		name = path.Base(u.Path)
		if strings.HasSuffix(name, ".gguf") {
			return name
		}
	default:
		tag, _, _ := strings.Cut(r.Tag, ":")
		name = path.Base(r.Repo) + "-" + tag
	}
	return name + ".gguf"
}

// isComponent reports whether s is valid as a part of a name.
func isComponent(s string) bool { return component(s) && !strings.Contains(s, "..") }

// checkPath returns an error unless p is a relative path of a file inside a folder.
func checkPath(p string) error {
	for _, part := range strings.Split(p, "/") {
		if err := checkName(part); err != nil {
			return fmt.Errorf("the path %q: %w", p, err)
		}
	}
	return nil
}

// checkName returns an error unless s is valid as a file name.
func checkName(s string) error {
	switch {
	case s == "" || s[0] == '.' || len(s) > 200:
		return fmt.Errorf("the file name %.40q, want one of 1 to 200 bytes that begins with no dot", s)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }):
		return fmt.Errorf("the file name %.40q, want one without slashes and control characters", s)
	}
	return nil
}

// checkSum returns an error unless s is a SHA-256 in hexadecimal.
func checkSum(s string) error {
	if _, err := hex.DecodeString(s); err != nil || !sumForm(s) {
		return fmt.Errorf("the sha256 %.80q, want 64 digits", s)
	}
	return nil
}
