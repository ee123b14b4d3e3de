package diskcache

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the folder of a cache anew: what is there is what upgrades find, so only where the format and its version have changed on purpose")

// stored is the folder of a cache with one page, as a server left it.
const stored = "testdata/stored"

// A server finds the pages of the release before, or, once they are of another version, none of them: it never takes one for
// another.
func TestStoredByTheReleaseBefore(t *testing.T) {
	t.Parallel()
	if *update {
		dir := filepath.Join(t.TempDir(), "cache")
		s := openStore(t, Config{Dir: dir, Limit: 1 << 20}, disk{})
		put(t, s, 7)
		s.Close()
		if err := os.RemoveAll(stored); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(stored, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(stored, "*", "*.page"))
	if err != nil || len(pages) != 1 {
		t.Fatalf("%v, %v", pages, err)
	}
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.CopyFS(dir, os.DirFS(stored)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Config{Dir: dir, Limit: 1 << 20}, disk{})
	if !has(t, s, 7) || has(t, s, 8) {
		t.Error("its page is not found, or one that it does not have: a change of the format needs another version, and this folder anew by -update")
	}
	if st := s.Status(); st.Damaged != 0 {
		t.Errorf("%+v", st)
	}
	// A cache of another version is beside it.
	other := filepath.Join(t.TempDir(), "cache")
	if err := os.CopyFS(filepath.Join(other, "pages-0"), os.DirFS(filepath.Dir(pages[0]))); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Config{Dir: other, Limit: 1 << 20}, disk{})
	if has(t, s, 7) {
		t.Error("a page of another version is taken for one of this")
	}
	put(t, s, 7)
	if !has(t, s, 7) {
		t.Error("a page cannot be kept beside those of another version")
	}
}
