package platform

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"
)

// OpenServices connects to the service manager, which the caller closes.
func OpenServices() (Services, error) {
	m, err := mgr.Connect()
	if err != nil {
		return nil, serviceError("", err)
	}
	return manager{m}, nil
}

type manager struct{ m *mgr.Mgr }

func (m manager) Close() error { return m.m.Disconnect() }

func (m manager) Install(s Service) error {
	if s.Name == "" || len(s.Name) > 80 || strings.ContainsAny(s.Name, `/\`) {
		return fmt.Errorf("%q is no name of a service: want at most 80 letters without / and \\", s.Name)
	}
	made, err := m.m.CreateService(s.Name, s.Program, mgr.Config{
		DisplayName: s.Title, Description: s.About, StartType: mgr.StartAutomatic, ErrorControl: mgr.ErrorNormal,
		ServiceStartName: account(s.Name),
	}, s.Args...)
	if err != nil {
		return serviceError(s.Name, err)
	}
	defer made.Close()
	if err = settle(made, s.Ending); err == nil {
		err = addSource(s.Name)
	}
	if err != nil {
		_ = made.Delete()
		return serviceError(s.Name, err)
	}
	return nil
}

// settle has a service start after the others when the machine starts, and again after an end that nobody asked for, the later the
// more often that was, and has the machine's shutdown wait for its end. Settings that this Windows does not know
// (ERROR_INVALID_LEVEL) are left out.
func settle(s *mgr.Service, ending time.Duration) error {
	again := func(after time.Duration) mgr.RecoveryAction {
		return mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: after}
	}
	const day = 24 * 60 * 60
	late := windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 1}
	patience := uint32(min(max(ending, 0).Milliseconds(), math.MaxUint32)) // SERVICE_PRESHUTDOWN_INFO; 10 s where it is not set
	for _, err := range []error{
		windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&late))),
		windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, (*byte)(unsafe.Pointer(&patience))),
		s.SetRecoveryActions([]mgr.RecoveryAction{again(5 * time.Second), again(time.Minute), again(5 * time.Minute)}, day),
		s.SetRecoveryActionsOnNonCrashFailures(true),
	} {
		if err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
			return err
		}
	}
	return nil
}

// sources are where the log of events has the names of who writes to it.
const sources = `SYSTEM\CurrentControlSet\Services\EventLog\Application\`

// addSource adds a source to the log of events. One that is there already, which a removal has left or others have added, is taken
// as it is.
func addSource(name string) error {
	if there, err := registry.OpenKey(registry.LOCAL_MACHINE, sources+name, registry.QUERY_VALUE); err == nil {
		return there.Close()
	}
	return eventlog.InstallAsEventCreate(name, eventlog.Error|eventlog.Warning|eventlog.Info)
}

// removeSource removes a source that addSource has added; what it has said stays to be read. Another program's stays.
func removeSource(name string) {
	there, err := registry.OpenKey(registry.LOCAL_MACHINE, sources+name, registry.QUERY_VALUE)
	if err != nil {
		return
	}
	file, _, err := there.GetStringValue("EventMessageFile")
	there.Close()
	if err == nil && strings.EqualFold(filepath.Base(file), "EventCreate.exe") {
		_ = eventlog.Remove(name)
	}
}

// account is the one that a service of a name runs as: the system's own for it, without a password and with few rights.
func account(service string) string { return `NT SERVICE\` + service }

// with calls f with an open service.
func (m manager) with(name string, f func(*mgr.Service) error) error {
	s, err := m.m.OpenService(name)
	if err != nil {
		return serviceError(name, err)
	}
	defer s.Close()
	if err := f(s); err != nil {
		return serviceError(name, err)
	}
	return nil
}

func (m manager) Remove(name string) error {
	return m.with(name, func(s *mgr.Service) error {
		if err := s.Delete(); err != nil {
			return err
		}
		removeSource(name)
		return nil
	})
}

func (m manager) Start(name string) error {
	return m.with(name, func(s *mgr.Service) error { return s.Start() })
}

func (m manager) Stop(name string) error {
	return m.with(name, func(s *mgr.Service) error {
		_, err := s.Control(svc.Stop)
		return err
	})
}

func (m manager) Command(name string) (command []string, err error) {
	err = m.with(name, func(s *mgr.Service) error {
		// Not s.Config, which asks for more than every Windows has.
		for b := make([]uint64, 128); ; {
			config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&b[0]))
			size := uint32(8 * len(b))
			var want uint32
			err := windows.QueryServiceConfig(s.Handle, config, size, &want)
			if errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) && want > size {
				b = make([]uint64, (want+7)/8)
				continue
			}
			if err == nil {
				command, err = windows.DecomposeCommandLine(windows.UTF16PtrToString(config.BinaryPathName))
			}
			return err
		}
	})
	return command, err
}

func (m manager) State(name string) (state ServiceState, err error) {
	err = m.with(name, func(s *mgr.Service) error {
		is, err := s.Query()
		if err != nil {
			return err
		}
		state = ServiceState{Running: is.State == svc.Running, Process: int(is.ProcessId)}
		switch is.State {
		case svc.StartPending:
			state.Pending = "starting"
		case svc.StopPending:
			state.Pending = "stopping"
		case svc.Stopped:
			state.Process, state.Code = 0, is.Win32ExitCode
			if is.Win32ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
				state.Code = is.ServiceSpecificExitCode
			}
			if is.Win32ExitCode == uint32(windows.ERROR_SERVICE_NEVER_STARTED) {
				state.Code = 0
			}
		}
		return nil
	})
	return state, err
}

// A serviceFailure is an error in words of its own.
type serviceFailure struct {
	text string
	is   error
}

func (f serviceFailure) Error() string { return f.text }
func (f serviceFailure) Unwrap() error { return f.is }

// serviceError says what to do about an error of the service manager.
func serviceError(name string, err error) error {
	say := func(format string) error { return serviceFailure{fmt.Sprintf(format, name), err} }
	switch {
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return serviceFailure{"services are for administrators: open a terminal as one", err}
	case errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST):
		return say("there is no service %q")
	case errors.Is(err, windows.ERROR_SERVICE_EXISTS), errors.Is(err, windows.ERROR_DUPLICATE_SERVICE_NAME):
		return say("there is a service %q already; remove it first, or choose another name")
	case errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING):
		return say("the service %q runs already")
	case errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
		return say("the service %q does not run")
	case errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL), errors.Is(err, windows.ERROR_INVALID_SERVICE_CONTROL):
		return say("the service %q is starting or stopping, and can be told nothing before it has; \"quern service status\" says when")
	case errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE):
		return say("the service %q is being removed; close what shows services, such as services.msc")
	}
	return fmt.Errorf("service %q: %w", name, err)
}

// own is the service that this process is; nil: it is none.
var own *service

// A service is a program that the service manager has started.
type service struct {
	name  string
	run   func(io.Writer) int
	told  chan string   // what run tells of itself, as a Supervisor is told
	asked chan struct{} // closed when it is asked to end
	ended chan struct{} // closed when run has ended
	left  chan int      // the exit code of an end that run is not waited for
}

func newService(name string, run func(io.Writer) int) *service {
	return &service{
		name: name, run: run, told: make(chan string), asked: make(chan struct{}), ended: make(chan struct{}), left: make(chan int),
	}
}

// RunService runs a program as the service of a name, which the service manager has started in this process, and returns when the
// program has ended. It is told by Supervised when it is to end, and what it writes are lines of the log of events.
func RunService(name string, run func(io.Writer) int) error {
	own = newService(name, run)
	err := svc.Run(name, own)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return errors.New("the service manager starts this, and nobody else; see \"quern help service\"")
	}
	return err
}

// tell has the service manager see READY=1 or STOPPING=1.
func (s *service) tell(state string) error {
	select {
	case s.told <- state:
	case <-s.ended:
	}
	return nil
}

// exit ends the process, though run has not ended: RunService returns when the manager knows.
func (s *service) exit(code int) {
	select {
	case s.left <- code:
		time.Sleep(5 * time.Second) // by then the process has ended
	case <-s.ended:
	}
}

// Execute runs the service for package svc: the manager hears how it is, and it of the manager's wishes. It starts a service again
// whose end is an error, so that one that it has asked to end has none.
func (s *service) Execute(_ []string, wishes <-chan svc.ChangeRequest, now chan<- svc.Status) (specific bool, code uint32) {
	const step = 2 * time.Second // a manager that hears nothing for longer than WaitHint believes it hangs
	is := svc.Status{State: svc.StartPending, WaitHint: uint32(10 * step / time.Millisecond)}
	now <- is
	var exit int
	go func() {
		defer close(s.ended)
		exit = s.run(eventWriter(s.name))
	}()
	tick := time.NewTicker(step)
	defer tick.Stop()
	asked := false
	ending := func(code int) (specific bool, told uint32) {
		if asked {
			code = 0
		}
		return code != 0, uint32(code)
	}
	for {
		select {
		case <-s.ended:
			return ending(exit)
		case code := <-s.left:
			return ending(code)
		case state := <-s.told:
			switch state {
			case "READY=1":
				is = svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptPreShutdown}
			case "STOPPING=1":
				is = svc.Status{State: svc.StopPending, WaitHint: uint32(10 * step / time.Millisecond)}
			}
			now <- is
		case <-tick.C:
			if is.WaitHint > 0 {
				is.CheckPoint++
				now <- is
			}
		case w := <-wishes:
			switch w.Cmd {
			case svc.Interrogate:
				now <- is
			case svc.Stop, svc.Shutdown, svc.PreShutdown:
				is = svc.Status{State: svc.StopPending, WaitHint: uint32(10 * step / time.Millisecond)}
				now <- is
				if !asked {
					asked = true
					close(s.asked)
				}
			}
		}
	}
}

// An eventWriter writes lines of errors to the log of events, as the source of its name.
type eventWriter string

func (w eventWriter) Write(b []byte) (int, error) {
	log, err := eventlog.Open(string(w))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	const id = 1 // of EventCreate's message file: the text as it is
	if err := log.Error(id, strings.TrimSuffix(string(b), "\n")); err != nil {
		return 0, err
	}
	return len(b), nil
}
