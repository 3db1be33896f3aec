package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
)

// What the binary calls itself when it runs as a child.
const (
	apiServerCommand   = "apiserver"
	controllersCommand = "controllers"
)

// The parent's pid, for a child to see whether that still lives once PDEATHSIG is armed.
const parentEnv = "PILOTHOUSE_CONTROLPLANE_PARENT"

// How long a child may take after SIGTERM before it is killed.
const terminationGrace = 20 * time.Second

// process is a child, re-executed from this binary. Its end is known from wait() alone: signal 0 is answered by
// zombies too.
type process struct {
	cmd     *exec.Cmd
	logPath string
	exited  chan struct{} // closed when the child has been waited for
}

// forks carries what has to run on the thread that forks: PDEATHSIG is sent when the *thread* that created the child
// ends, so all children are made by one that never does.
var forks = func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread()
		for request := range requests {
			request()
		}
	}()
	return requests
}()

// startProcess runs `controlplane COMMAND ARGS...` with its output appended to logPath.
func startProcess(command string, args []string, logPath string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(self, append([]string{command}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), parentEnv+"="+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// Ctrl-C in a terminal is for the parent, which ends its children itself.
		Setpgid: true,
	}
	started := make(chan error)
	forks <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", command, err)
	}
	p := &process{cmd: cmd, logPath: logPath, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop sends the signal and waits for the end; after a SIGTERM that is not heeded in time it kills.
func (p *process) stop(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
	// A paused process does not see SIGTERM before it continues.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.exited:
	case <-time.After(terminationGrace):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// setPaused stops the process with SIGSTOP or continues it, and returns when the kernel has done so.
func (p *process) setPaused(paused bool) error {
	sig := syscall.SIGCONT
	if paused {
		sig = syscall.SIGSTOP
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
		if err != nil {
			return err
		}
		if (stateOf(stat) == 'T') == paused {
			return nil
		}
	}
	return fmt.Errorf("process %d did not change to paused=%v", p.pid(), paused)
}

// stateOf is the state letter of /proc/PID/stat: it follows the command's name, which is in parentheses and may hold any byte.
func stateOf(stat []byte) byte {
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' && i+2 < len(stat) {
			return stat[i+2]
		}
	}
	return 0
}

// ended is the error of a process that ended by itself, with the end of its log.
func (p *process) ended() error {
	content, err := os.ReadFile(p.logPath)
	if err != nil {
		return err
	}
	const most = 3000
	if len(content) > most {
		content = content[len(content)-most:]
	}
	return fmt.Errorf("%s ended (%v), the end of its log:\n%s", p.cmd.Args[1], p.cmd.ProcessState, content)
}

// runChild runs one of Kubernetes' own commands as a child's whole work and returns the exit code. A process can run
// one such command only: each brings a signal handler that may be installed once.
func runChild(command *cobra.Command, args []string) int {
	// The parent may have died before PDEATHSIG was armed.
	if parent := os.Getenv(parentEnv); parent != strconv.Itoa(os.Getppid()) {
		fmt.Fprintln(os.Stderr, "this command is started by `controlplane serve` only")
		return 1
	}
	command.SetArgs(args)
	return cli.Run(command)
}
