package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/quern-llm/quern/go/"

// A package may import the ones on the lines above its own, and no others of
// this module. Lines may name packages that are yet to come.
var layers = []string{
	"platform",
	"internal/browser internal/cputime internal/exactmath grammar internal/jinja internal/layers internal/llamaflags internal/newfile internal/panics internal/svg internal/testdata internal/testpage internal/usage",
	"grammar/regex media/document/pdf",
	"grammar/jsonschema",
	"grammar/gbnf grammar/lark",
	"gguf safetensors mem machine tokenizer chat constrain draft sched kernel diskcache demo media/document media/picture media/sound models persona ranks sandbox server/batch server/fetch server/oidc server/page server/quota server/reply",
	"convert/hf mcp quant server/field server/web tools",
	"convert/vocab form hub internal/mutate kvcache measure media/prepare model/nn sample scratch scripted server/history server/oidc/oidctest stream synth",
	"convert/lang generate model/arch model/projector",
	"model",
	"convert/family convert/internal/optest convert/projector convert/quantized engine eval server/guard server/host train train/data",
	"distil finetune reading",
	"transcribe",
	"rerank server/ask",
	"server/answer server/catalog",
	"server/agent",
	"server/anthropic server/llamaserver server/ollama server/openai server/openinference",
	"bench convert repl server server/telemetry verify",
	"internal/speechtest launch server/internal/fake",
	"fleet httpapi querntest", // the last two over the package at the root
	"cmd/quern",
}

// Who imports the package at the root has no web framework, logger, telemetry or flags in the program.
var notInLibrary = []string{
	"github.com/gin-gonic/", "github.com/rs/zerolog", "github.com/spf13/", "go.opentelemetry.io/", "github.com/prometheus/",
	module + "httpapi", module + "server", module + "fleet", module + "cmd/", module + "repl", module + "internal/",
}

// The root imports what a library has, and no more comes with that.
func TestLibrary(t *testing.T) {
	seen := map[string]bool{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				for _, bad := range notInLibrary {
					if strings.HasPrefix(name, bad) && (dir == root || !strings.HasPrefix(bad, module+"internal/")) {
						t.Errorf("%s imports %s, which comes with the package at the root", filepath.Join(dir, e.Name()), name)
					}
				}
				if dep, ours := strings.CutPrefix(name, module); ours && !seen[dep] {
					seen[dep] = true
					walk(filepath.Join(root, "go", dep))
				}
			}
		}
	}
	walk(root)
	if !seen["engine"] {
		t.Error("the root does not import engine: the walk starts in the wrong place")
	}
}

const root = "../../.."

// The tests walk the source themselves: the go command does not see what a
// subprocess reads, and would answer with a cached result.
func TestImports(t *testing.T) {
	layer := map[string]int{}
	for i, names := range layers {
		for _, name := range strings.Fields(names) {
			layer[name] = i
		}
	}
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		rel, err := filepath.Rel("../..", filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		own, ok := layer[pkg]
		if !ok && f.Name.Name != "main" {
			t.Errorf("%s is in no layer", pkg)
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if name == "C" && pkg != "kernel" && pkg != "cmd/libquern" {
				t.Errorf("%s imports C; only kernel, and what C calls, may", path)
			}
			if strings.HasPrefix(name, "golang.org/x/sys/") && pkg != "platform" && pkg != "sandbox" { // which is Linux alone
				t.Errorf("%s imports %s; what differs by operating system is in platform", path, name)
			}
			if strings.HasPrefix(name, "gonum.org/") {
				t.Errorf("%s imports %s; plots are drawn in bench, not in the program", path, name)
			}
			dep, ours := strings.CutPrefix(name, module)
			if !ours {
				continue
			}
			if pkg == "cmd/quern" && (dep == "fleet" || dep == "server" || strings.HasPrefix(dep, "server/")) && !strings.HasPrefix(filepath.Base(path), "serve") {
				t.Errorf("%s imports %s; of the commands only serve may", path, dep)
			}
			if dep == "server/internal/fake" {
				t.Errorf("%s imports %s; only tests may", path, dep)
			}
			if f.Name.Name == "main" {
				continue
			}
			if below, ok := layer[dep]; !ok || below >= own {
				t.Errorf("%s imports %s, which is not below it", path, dep)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files found: the walk starts in the wrong place", files)
	}
}
