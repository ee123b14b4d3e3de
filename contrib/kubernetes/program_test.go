// Package kubernetes_test checks what lies here without a cluster: the chart is rendered by Helm's own library and read
// strictly as the types of Kubernetes, and the endpoint picker of the Gateway API chooses between two servers.
package kubernetes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// program builds quern, once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "quern-kubernetes-test", "quern")
	c := exec.Command("scripts/go.sh", "build", "-o", path, "./go/cmd/quern")
	c.Dir, c.Env = "../..", append(os.Environ(), "GOFLAGS=")
	out, err := c.CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(filepath.Join(os.TempDir(), "quern-kubernetes-test"))
	os.Exit(code)
}

// accepted fails the test unless the program has the command and each flag of a container's arguments.
func accepted(t *testing.T, args []string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, append(args, "--help")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage") {
		t.Errorf("quern %q: %v: %.300s", args, err, out)
	}
}
