package platform

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

// A service that was asked to end has ended without an error, whatever its exit code is: the manager would start it again.
func TestServiceEnds(t *testing.T) {
	for _, test := range []struct {
		name  string
		asked bool // to end
		hangs bool // and is ended by Exit
		exit  int
		want  uint32
	}{
		{"by itself", false, false, 0, 0},
		{"by itself with an error", false, false, 3, 3},
		{"as it was asked", true, false, 0, 0},
		{"as it was asked, with an error", true, false, 1, 0},
		{"as it was asked, though it hangs", true, true, 1, 0},
		{"though it hangs", false, true, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s *service
			hang := make(chan struct{})
			defer close(hang)
			s = newService("quern", func(io.Writer) int {
				if err := s.tell("READY=1"); err != nil {
					t.Error(err)
				}
				if test.asked {
					<-s.asked
				}
				if test.hangs {
					go s.exit(test.exit)
					<-hang
				}
				return test.exit
			})
			wishes, now := make(chan svc.ChangeRequest), make(chan svc.Status)
			type end struct {
				specific bool
				code     uint32
			}
			ended := make(chan end, 1)
			go func() {
				specific, code := s.Execute(nil, wishes, now)
				ended <- end{specific, code}
			}()
			for wish := wishes; ; {
				var ask chan svc.ChangeRequest
				select {
				case is := <-now:
					if is.State == svc.Running && test.asked {
						ask, wish = wish, nil
					}
				case e := <-ended:
					if e.code != test.want || e.specific != (test.want != 0) {
						t.Errorf("it has ended with %+v, want %d", e, test.want)
					}
					return
				case <-time.After(time.Minute):
					t.Fatal("it does not end")
				}
				if ask != nil {
					ask <- svc.ChangeRequest{Cmd: svc.Stop}
				}
			}
		})
	}
}

func TestServiceErrors(t *testing.T) {
	for err, want := range map[error]string{
		windows.ERROR_ACCESS_DENIED:              "administrators",
		windows.ERROR_SERVICE_DOES_NOT_EXIST:     `no service "quern"`,
		windows.ERROR_SERVICE_EXISTS:             "already",
		windows.ERROR_SERVICE_NOT_ACTIVE:         "does not run",
		windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL: "starting or stopping",
		windows.ERROR_INVALID_SERVICE_CONTROL:    "starting or stopping",
		windows.ERROR_SERVICE_MARKED_FOR_DELETE:  "being removed",
		windows.ERROR_INVALID_HANDLE:             `service "quern": `,
	} {
		got := serviceError("quern", fmt.Errorf("wrapped: %w", err))
		if !errors.Is(got, err) || !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "\n") {
			t.Errorf("%v: %v, want %q in it", err, got, want)
		}
	}
}

// A file that somebody has open is not left.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	used, left := filepath.Join(dir, "used"), filepath.Join(dir, "left")
	for _, name := range []string{used, left} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(used)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{used, left, filepath.Join(dir, "none")} {
		Sweep(name)
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("an open file is gone: %v", err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("a file that nobody has open is there")
	}
}
