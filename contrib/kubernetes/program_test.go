// Package kubernetes_test checks what lies here without a cluster: the chart is rendered by Helm's own library and read
// strictly as the types of Kubernetes, and the endpoint picker of the Gateway API chooses between two servers.
package kubernetes_test

import (
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is where the program is built.
var built string

// program builds quern, once, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "quern")
	c := exec.Command("scripts/go.sh", "build", "-o", path, "./go/cmd/quern")
	c.Dir, c.Stderr = "../..", os.Stderr
	return path, c.Run()
})

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm's loader tells of each symbolic link
	var err error
	if built, err = os.MkdirTemp("", "quern"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(built)
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
