package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

var (
	starting = platform.ServiceState{Pending: "starting", Process: 1}
	running  = platform.ServiceState{Running: true, Process: 1}
	stopping = platform.ServiceState{Pending: "stopping", Process: 1}
	stopped  = platform.ServiceState{}
	failed   = platform.ServiceState{Code: 1}
)

// madeServices is a service manager with one service, whose states are made: each is seen once, and the last from then on.
type madeServices struct {
	states  []platform.ServiceState
	stops   []platform.ServiceState // the states after it was told to stop
	command []string
	told    []string // what it was told, in order
}

func (m *madeServices) Install(platform.Service) error { return errors.ErrUnsupported }
func (m *madeServices) Close() error                   { return nil }

func (m *madeServices) Start(string) error {
	m.told = append(m.told, "start")
	return nil
}

func (m *madeServices) Stop(string) error {
	if !m.states[0].Running {
		return errors.New("it takes no wishes")
	}
	m.told = append(m.told, "stop")
	m.states = m.stops
	return nil
}

func (m *madeServices) Remove(string) error {
	if s := m.states[0]; s.Running || s.Pending != "" {
		return errors.New("it is removed, and its program goes on")
	}
	m.told = append(m.told, "remove")
	return nil
}

func (m *madeServices) State(string) (platform.ServiceState, error) {
	if len(m.states) > 1 {
		defer func() { m.states = m.states[1:] }()
	}
	return m.states[0], nil
}

func (m *madeServices) Command(string) ([]string, error) { return m.command, nil }

func TestServiceCommandsWait(t *testing.T) {
	type states = []platform.ServiceState
	f := &serviceFlags{name: "quern"}
	// The manager says that a service runs for a while after it was told to stop.
	end := states{running, running, stopping, stopping, stopped}
	for name, test := range map[string]struct {
		do   func(context.Context, platform.Services, io.Writer) error
		made madeServices
		told string
		err  string
	}{
		"start":                   {f.start, madeServices{states: states{starting, starting, running}}, "start", ""},
		"start of one that fails": {f.start, madeServices{states: states{starting, failed}}, "start", "code 1"},
		"stop":                    {f.stop, madeServices{states: states{running}, stops: end}, "stop", ""},
		"stop that fails":         {f.stop, madeServices{states: states{running}, stops: states{running, failed}}, "stop", ""},
		"stop of one that starts": {f.stop, madeServices{states: states{starting, running}, stops: end}, "", "no wishes"},
		"remove":                  {f.remove, madeServices{states: states{running}, stops: end}, "stop remove", ""},
		"remove while it starts":  {f.remove, madeServices{states: states{starting, starting, running}, stops: end}, "stop remove", ""},
		"remove while it stops":   {f.remove, madeServices{states: states{stopping, stopped}}, "remove", ""},
		"remove as it fails":      {f.remove, madeServices{states: states{starting, failed}}, "remove", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := test.made
				err := test.do(t.Context(), &m, io.Discard)
				if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
				if told := strings.Join(m.told, " "); told != test.told {
					t.Errorf("it was told %q, want %q", told, test.told)
				}
				if len(m.states) > 1 && err == nil {
					t.Errorf("it did not wait for %v", m.states[1:])
				}
			})
		})
	}
}

func TestServiceWaitIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := madeServices{states: []platform.ServiceState{starting}}
		err := (&serviceFlags{name: "quern"}).remove(ctx, &m, io.Discard)
		if !errors.Is(err, context.DeadlineExceeded) || len(m.told) > 0 {
			t.Errorf("got %v, and it was told %q", err, m.told)
		}
	})
}

// The service manager would stop and remove any service of the machine.
func TestServiceOfOthers(t *testing.T) {
	for line, want := range map[string]bool{
		`C:\quern.exe|service|run|quern|C:\models|serve|-m|m.gguf`: true,
		`C:\quern.exe|service|run|QUERN|C:\models|serve`:           true, // Windows' names have no case
		`C:\quern.exe|service|run|other|C:\models|serve`:           false,
		`C:\quern.exe|service|run`:                                 false,
		`C:\quern.exe|serve|run|quern|C:\models`:                   false,
		`C:\Windows\System32\spoolsv.exe`:                          false,
		``:                                                         false,
	} {
		m := &madeServices{command: slices.DeleteFunc(strings.Split(line, "|"), func(s string) bool { return s == "" })}
		err := (&serviceFlags{name: "quern"}).ours(m)
		if (err == nil) != want || err != nil && (!strings.Contains(err.Error(), `"quern" is another program's`) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestServable(t *testing.T) {
	for line, test := range map[string]struct {
		ending time.Duration
		err    string
	}{
		"serve -m m.gguf": {20*time.Second + lastTime, ""},
		"serve -m m.gguf --drain 90 --drain-delay 1m":                  {150*time.Second + lastTime, ""},
		"serve -m m.gguf --drain_delay=500ms --drain 0":                {time.Second/2 + lastTime, ""},
		"serve -m m.gguf --api-key-file keys":                          {20*time.Second + lastTime, ""},
		"serve -m m.gguf --api-key sha256:" + strings.Repeat("00", 32): {20*time.Second + lastTime, ""},
		"serve -m m.gguf --api-key secret":                             {0, "--api-key-file"},
		"serve -m m.gguf --api_key=secret":                             {0, "--api-key-file"},
		"serve --frobnicate":                                           {0, "frobnicate"},
		"run -m m.gguf":                                                {0, `a service runs "serve"`},
	} {
		ending, err := servable(strings.Fields(line))
		if ending != test.ending || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, %v; want %v, %q", line, ending, err, test.ending, test.err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
