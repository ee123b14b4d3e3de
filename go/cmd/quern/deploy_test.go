package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/quern-llm/quern/go/demo"
)

const deployed = "../../../scripts/deploy/"

// documents parses the YAML documents of a file.
func documents(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var doc map[string]any
		if err := d.Decode(&doc); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, doc)
	}
}

// at follows keys and indices into a document.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				t.Fatalf("no %v of %v", path, v)
			}
			v = l[p]
		}
	}
	if v == nil {
		t.Fatalf("nothing at %v", path)
	}
	return v
}

// Every flag in the files is one of the program's, and their probes are the server's.
func TestDeployment(t *testing.T) {
	serve := newServeCommand().Flags()
	check := func(file string, words []string) {
		t.Helper()
		if !slices.Contains(words, "serve") {
			t.Errorf("%s: no serve in %q", file, words)
		}
		for _, w := range words {
			if name, ok := strings.CutPrefix(w, "--"); ok && serve.Lookup(name) == nil {
				t.Errorf("%s: serve has no %s", file, w)
			}
		}
	}
	args := func(v any) (words []string) {
		for _, w := range v.([]any) {
			words = append(words, w.(string))
		}
		return words
	}
	compose := at(t, documents(t, deployed+"compose.yaml")[0], "services", "quern")
	check("compose.yaml", args(at(t, compose, "command")))
	if at(t, compose, "read_only") != true {
		t.Error("compose.yaml: the root can be written to")
	}

	manifests := map[string]map[string]any{}
	for _, name := range args(at(t, documents(t, deployed+"kubernetes/kustomization.yaml")[0], "resources")) {
		for _, doc := range documents(t, deployed+"kubernetes/"+name) {
			manifests[at(t, doc, "kind").(string)] = doc
			at(t, doc, "apiVersion")
			at(t, doc, "metadata", "name")
		}
	}
	files, err := filepath.Glob(deployed + "kubernetes/*.yaml")
	if err != nil || len(files) != len(manifests)+1 {
		t.Errorf("%d files, the kustomization has %d; %v", len(files), len(manifests), err)
	}
	pod := at(t, manifests["Deployment"], "spec", "template", "spec")
	c := at(t, pod, "containers", 0)
	check("deployment.yaml", args(at(t, c, "args")))
	for probe, path := range map[string]string{"startupProbe": "/startupz", "readinessProbe": "/readyz", "livenessProbe": "/livez"} {
		if got := at(t, c, probe, "httpGet", "path"); got != path {
			t.Errorf("the %s asks %v, want %s", probe, got, path)
		}
	}
	if at(t, c, "securityContext", "readOnlyRootFilesystem") != true || at(t, pod, "securityContext", "runAsNonRoot") != true {
		t.Error("deployment.yaml: the container may do more than it needs")
	}
	at(t, c, "resources", "limits", "memory")
	label := at(t, manifests["Deployment"], "spec", "template", "metadata", "labels", "app.kubernetes.io/name")
	for _, selector := range []any{at(t, manifests["Deployment"], "spec", "selector", "matchLabels"),
		at(t, manifests["Service"], "spec", "selector"), at(t, manifests["PodMonitor"], "spec", "selector", "matchLabels")} {
		if got := at(t, selector, "app.kubernetes.io/name"); got != label {
			t.Errorf("a selector of %v, pods are %v", got, label)
		}
	}
	if got := at(t, manifests["PodMonitor"], "spec", "podMetricsEndpoints", 0, "path"); got != "/metrics" {
		t.Errorf("metrics at %v", got)
	}

	unit, err := os.ReadFile(deployed + "quern.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.ReplaceAll(string(unit), "\\\n", " ")
	setting := regexp.MustCompile(`^(#.*|\[[A-Z]\w+\]|[A-Z]\w+=.*|)$`)
	for line := range strings.SplitSeq(lines, "\n") {
		if !setting.MatchString(line) {
			t.Errorf("quern.service: %q", line)
		}
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			check("quern.service", strings.Fields(command))
		}
	}

	// Its sockets are handed over as the service asks: non-blocking, since processes share them.
	if !strings.Contains(lines, "\nNonBlocking=yes\n") || !strings.Contains(lines, "\nType=notify\n") {
		t.Error("quern.service: systemd makes shared sockets blocking, or does not wait until it is ready")
	}
	sockets, err := os.ReadFile(deployed + "quern.socket")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(sockets), "\n") {
		if !setting.MatchString(line) {
			t.Errorf("quern.socket: %q", line)
		}
	}
	port := serve.Lookup("port").DefValue
	if !strings.Contains(string(sockets), "\nListenStream=127.0.0.1:"+port+"\n") {
		t.Errorf("quern.socket: it does not listen where the server does by default, port %s", port)
	}

	job, err := os.ReadFile(deployed + "slurm/quern.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	if _, command, ok := strings.Cut(strings.ReplaceAll(string(job), "\\\n", " "), " quern-mpi "); ok {
		check("quern.sbatch", strings.Fields(command))
	} else {
		t.Error("quern.sbatch: no quern-mpi")
	}
	if out, err := exec.Command("bash", "-n", deployed+"slurm/quern.sbatch").CombinedOutput(); err != nil {
		t.Errorf("quern.sbatch: %v: %s", err, out)
	}

	dockerfile, err := os.ReadFile("../../../scripts/release/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"\nFROM scratch\n", "\nUSER 65532:65532\n", `CMD ["/quern", "health"]`, `ENTRYPOINT ["/quern"]`} {
		if !strings.Contains(string(dockerfile), w) {
			t.Errorf("Dockerfile without %q", w)
		}
	}
}

// The health check says by its status whether a server is ready.
func TestHealth(t *testing.T) {
	quern(t, "health", "--host", filepath.Join(t.TempDir(), "none.sock")).refused(t, 1, "none.sock")
	quern(t, "health", "--host", "").refused(t, 2, "--host")
	s := serve(t, "", "-m", demo.Name)
	if r := quern(t, "health", "--host", s.socket); r.code != 0 || r.stdout+r.stderr != "" {
		t.Errorf("ready: %+v", r)
	}
	quern(t, "health", "--host", s.socket, "--api-prefix", "/none").refused(t, 1, "/none/readyz")
}
