package guard

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// keysOf is a key by a flag, and those of a file with a text.
func keysOf(t *testing.T, text string) (k *Keys, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := NewKeys([]string{"by-a-flag"})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.AddFile(path); err != nil {
		t.Fatal(err)
	}
	return k, path
}

// followed is keys of a file that is followed, and what was told of it since it was last asked.
func followed(t *testing.T, text string, strong bool) (k *Keys, path string, told func() []string) {
	t.Helper()
	k, path = keysOf(t, text)
	var mu sync.Mutex
	var lines []string
	told = func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := lines
		lines = nil
		return all
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Follow(ctx, time.Second, strong, func(err error) {
			said := "read"
			if err != nil {
				said = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, said)
		})
	}()
	t.Cleanup(func() { end(); <-done })
	return k, path, told
}

// accepted are the keys of a list that are accepted.
func accepted(k *Keys, all ...string) (list []string) {
	for _, key := range all {
		if _, ok := k.Check(key); ok {
			list = append(list, key)
		}
	}
	return list
}

// wait lets Follow look n times.
func wait(n int) { time.Sleep(time.Duration(n)*time.Second + time.Millisecond); synctest.Wait() }

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, path, told := followed(t, "first-key\n", false)
		write := func(path, text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := func(want string, said ...string) {
			t.Helper()
			if got := strings.Join(accepted(k, "by-a-flag", "first-key", "second-key", "third-key", "weak"), " "); got != want {
				t.Errorf("the keys are %s, want %s", got, want)
			}
			lines := told()
			if len(lines) != len(said) {
				t.Fatalf("told %q, want %q", lines, said)
			}
			for i, want := range said {
				if !strings.Contains(lines[i], want) {
					t.Errorf("told %q, want %q", lines[i], want)
				}
			}
		}
		wait(3)
		check("by-a-flag first-key")
		write(path, "first-key\nsecond-key admin\n")
		wait(1)
		check("by-a-flag first-key") // somebody may still write
		wait(1)
		check("by-a-flag first-key second-key", "read")
		wait(3)
		check("by-a-flag first-key second-key")
		write(path, "first-key\nsecond-key nonsense\n")
		wait(2)
		check("by-a-flag first-key second-key", "line 2: word 1 after the key")
		wait(3)
		check("by-a-flag first-key second-key") // it is told once
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wait(2)
		check("by-a-flag first-key second-key", "no such file")
		write(path+".new", "third-key\nweak\n")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		wait(2)
		check("by-a-flag third-key weak", "read")
		write(path, "")
		wait(2)
		check("by-a-flag third-key weak", "has no keys")
	})
}

// At an address that others reach, a key that can be guessed does not come by a file that changes.
func TestFollowStrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, path, told := followed(t, "first-key\n", true)
		if err := os.WriteFile(path, []byte("weak\nthird-key"), 0o600); err != nil {
			t.Fatal(err)
		}
		wait(2)
		lines := told()
		if got := accepted(k, "first-key", "weak", "third-key"); len(got) != 1 || len(lines) != 1 || !strings.Contains(lines[0], "line 1: it has 4 characters") {
			t.Errorf("accepted %q, told %q", got, lines)
		}
	})
}

// Who removes the last key that has a role makes no other key an admin.
func TestFollowRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, path, told := followed(t, "root-key admin\napp-key\n", false)
		for _, text := range []string{"app-key\n", "app-key 2\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			wait(3)
			if app, ok := k.Check("app-key"); !ok || app.Admin || app.Priority != 0 || !k.LostRoles() || len(accepted(k, "root-key")) > 0 {
				t.Errorf("%q: %+v %v, told %q", text, app, ok, told())
			}
		}
		if flag, _ := k.Check("by-a-flag"); flag.Admin {
			t.Error("the key of a flag became an admin's")
		}
		if err := os.WriteFile(path, []byte("app-key admin\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		wait(3)
		if app, _ := k.Check("app-key"); !app.Admin || k.LostRoles() {
			t.Errorf("%+v, told %q", app, told())
		}
	})
}

// A key is found by its name for as long as it is in the file.
func TestNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, path, _ := followed(t, "first-key rpm=7\n", false)
		first, _ := k.Check("first-key")
		if got, ok := k.Named(first.Name); !ok || !reflect.DeepEqual(got, first) || got.Account.Limits().Minute.Requests != 7 {
			t.Errorf("%+v %v, want %+v", got, ok, first)
		}
		if err := os.WriteFile(path, []byte("other-key\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		wait(3)
		for _, name := range []string{first.Name, "", "x"} {
			if got, ok := k.Named(name); ok {
				t.Errorf("%q: %+v", name, got)
			}
		}
	})
}
