//go:build e2e || conformance

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kaas/e2e/process"
)

func TestMain(m *testing.M) {
	code := m.Run()
	toolServers.end()
	if javaClasses.directory != "" {
		if err := os.RemoveAll(javaClasses.directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// javaClasses is where the programs of e2e/conformance are compiled to, once for
// all tests of a run.
var javaClasses struct {
	once      sync.Once
	directory string // written under once
	path      string // the class path with the jars; written under once
	err       error  // written under once
}

// javaClassPath compiles e2e/conformance and returns the class path that runs it.
func javaClassPath(t *testing.T) string {
	t.Helper()
	needJava(t)
	c := &javaClasses
	c.once.Do(func() {
		fetched, stderr, err := try(t, nil, fromRoot(t, "e2e/kafka/fetch"))
		if err != nil {
			c.err = fmt.Errorf("%w: %s", err, stderr)
			return
		}
		jars := strings.TrimSpace(fetched) + "/*"
		if c.directory, c.err = os.MkdirTemp("", "kaas-e2e-classes"); c.err != nil {
			return
		}
		sources, err := filepath.Glob(fromRoot(t, "e2e/conformance/*.java"))
		if err != nil {
			c.err = err
			return
		}
		c.path = c.directory + ":" + jars
		if _, stderr, err := try(t, nil, "javac", append([]string{"-nowarn", "-d", c.directory, "-cp", jars}, sources...)...); err != nil {
			c.err = fmt.Errorf("%w: %s", err, stderr)
		}
	})
	must(t, c.err)
	return c.path
}

// javaCommand is a program of e2e/conformance, ready to be started. It dies with
// the tests.
func javaCommand(t *testing.T, classPath, heap, program string, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command("java", append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", heap,
		"-Dlog4j2.configurationFile=" + fromRoot(t, "e2e/kafka/log4j2.properties"), "-cp", classPath, program}, arguments...)...)
	command.WaitDelay = 5 * time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// toolServers run Apache Kafka's tools; see ToolServer.java. A tool that one of them
// runs costs a tenth of one with a JVM of its own.
var toolServers = newToolServerPool(3)

const toolTimeout = 2 * time.Minute

type toolServerPool struct {
	places chan *toolServer // one for each server that may be; nil where none runs

	once    sync.Once
	classes map[string]string // by a tool's name; written under once
	err     error             // written under once
}

func newToolServerPool(most int) *toolServerPool {
	p := &toolServerPool{places: make(chan *toolServer, most)}
	for range most {
		p.places <- nil
	}
	return p
}

// toolServer belongs to who took it from the pool.
type toolServer struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	words   *process.Tail
}

type toolAnswer struct {
	Stdout, Stderr string
	Code           int
}

// runTool runs one of Apache Kafka's tools and returns what it wrote and whether it failed.
func runTool(t *testing.T, stdin, name string, arguments ...string) toolAnswer {
	t.Helper()
	if strings.Contains(name, "verifiable") || strings.Contains(name, "perf-test") {
		// These end by hooks of their own JVM, or want its best compiler.
		stdout, stderr, err := try(t, []byte(stdin), fromRoot(t, "e2e/kafka/tool"), append([]string{name}, arguments...)...)
		if err != nil {
			return toolAnswer{Stdout: stdout, Stderr: stderr + err.Error(), Code: 1}
		}
		return toolAnswer{Stdout: stdout, Stderr: stderr}
	}
	class := toolServers.class(t, name)
	classPath := javaClassPath(t)
	s := <-toolServers.places
	if s == nil {
		s = startToolServer(t, classPath)
	}
	type result struct {
		answer toolAnswer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := s.ask(class, stdin, arguments)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		if r.err == nil {
			toolServers.places <- s
			return r.answer
		}
		s.kill()
		toolServers.places <- nil
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), r.err, s.words)
	case <-time.After(toolTimeout):
		s.kill()
		<-done
		toolServers.places <- nil
		t.Fatalf("%s %s did not end within %v\n%s", name, strings.Join(arguments, " "), toolTimeout, s.words)
	}
	return toolAnswer{}
}

func (s *toolServer) ask(class, stdin string, arguments []string) (toolAnswer, error) {
	if arguments == nil {
		arguments = []string{}
	}
	line, err := json.Marshal(map[string]any{"class": class, "arguments": arguments, "stdin": stdin})
	if err != nil {
		return toolAnswer{}, err
	}
	if _, err := s.stdin.Write(append(line, '\n')); err != nil {
		return toolAnswer{}, fmt.Errorf("asking the tool server: %w", err)
	}
	line, err = s.stdout.ReadBytes('\n')
	if err != nil {
		return toolAnswer{}, fmt.Errorf("the tool server's answer: %w", err)
	}
	var answer toolAnswer
	return answer, json.Unmarshal(line, &answer)
}

var toolClassLine = regexp.MustCompile(`(?m)^  \[(kafka-[a-z0-9-]+)\]=(\S+)$`)

// class is the Java class of a tool, by the table in e2e/kafka/tool.
func (p *toolServerPool) class(t *testing.T, name string) string {
	t.Helper()
	if strings.Count(name, ".") > 1 {
		return name
	}
	p.once.Do(func() {
		var script []byte
		if script, p.err = os.ReadFile(fromRoot(t, "e2e/kafka/tool")); p.err != nil {
			return
		}
		p.classes = map[string]string{}
		for _, match := range toolClassLine.FindAllStringSubmatch(string(script), -1) {
			p.classes[match[1]] = "org.apache.kafka.tools." + match[2]
		}
	})
	must(t, p.err)
	class, found := p.classes[name]
	if !found {
		t.Fatalf("e2e/kafka/tool knows no %s", name)
	}
	return class
}

func startToolServer(t *testing.T, classPath string) *toolServer {
	t.Helper()
	s := &toolServer{command: javaCommand(t, classPath, "-Xmx256M", "ToolServer"), words: &process.Tail{}}
	s.command.Stderr = s.words
	stdin, err := s.command.StdinPipe()
	must(t, err)
	stdout, err := s.command.StdoutPipe()
	must(t, err)
	s.stdin, s.stdout = stdin, bufio.NewReader(stdout)
	must(t, s.command.Start())
	return s
}

func (s *toolServer) kill() {
	_ = s.command.Process.Kill() // it may have ended already
	_ = s.command.Wait()         // killed: the exit status says nothing
}

// end is for when no test runs any more.
func (p *toolServerPool) end() {
	for range cap(p.places) {
		if s := <-p.places; s != nil {
			s.kill()
		}
	}
}
