package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// A podTemplate is what the files have of pods: other fields are errors.
type podTemplate struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		AutomountServiceAccountToken  bool `yaml:"automountServiceAccountToken"`
		TerminationGracePeriodSeconds int  `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsNonRoot   bool `yaml:"runAsNonRoot"`
			RunAsUser      int  `yaml:"runAsUser"`
			RunAsGroup     int  `yaml:"runAsGroup"`
			FSGroup        int  `yaml:"fsGroup"`
			SeccompProfile any  `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Affinity struct {
			PodAntiAffinity struct {
				Required []struct {
					TopologyKey   string `yaml:"topologyKey"`
					LabelSelector struct {
						MatchLabels map[string]string `yaml:"matchLabels"`
					} `yaml:"labelSelector"`
				} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `yaml:"podAntiAffinity"`
		}
		Containers []struct {
			Name, Image string
			Args        []string
			Ports       []struct {
				Name          string
				ContainerPort int `yaml:"containerPort"`
			}
			StartupProbe    any `yaml:"startupProbe"`
			ReadinessProbe  any `yaml:"readinessProbe"`
			LivenessProbe   any `yaml:"livenessProbe"`
			Resources       struct{ Requests, Limits map[string]string }
			SecurityContext struct {
				AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
				ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
				Capabilities             struct{ Drop []string }
			} `yaml:"securityContext"`
			VolumeMounts []struct {
				Name      string
				MountPath string `yaml:"mountPath"`
				ReadOnly  bool   `yaml:"readOnly"`
			} `yaml:"volumeMounts"`
		}
		Volumes []struct {
			Name                  string
			PersistentVolumeClaim any `yaml:"persistentVolumeClaim"`
			Secret                any
		}
	}
}

// strictly parses a document, in which a field that the type does not have is an error.
func strictly(t *testing.T, path string, to any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(to)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// isCommand checks that words are a command of the program with flags that it has, and returns their values.
func isCommand(t *testing.T, file, name string, fs *pflag.FlagSet, words []string) map[string]string {
	t.Helper()
	if len(words) == 0 || words[0] != name {
		t.Fatalf("%s: %q, want the command %s", file, words, name)
	}
	values := map[string]string{}
	for i := 1; i < len(words); i++ {
		flag, ok := strings.CutPrefix(words[i], "--")
		if !ok && words[i] == "-m" {
			flag, ok = "model", true
		}
		f := fs.Lookup(flag)
		if !ok || f == nil {
			t.Errorf("%s: %s has no %s", file, name, words[i])
			continue
		}
		if f.NoOptDefVal == "" {
			i++
			values[flag] = words[i]
		}
	}
	return values
}

// The group of pods of a divided model: what they are told fits together, and who may reach them.
func TestDeploymentOfRanks(t *testing.T) {
	const dir = deployed + "kubernetes/large/"
	var group struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name   string
			Labels map[string]string
		}
		Spec struct {
			Replicas             int
			StartupPolicy        string `yaml:"startupPolicy"`
			LeaderWorkerTemplate struct {
				Size           int
				RestartPolicy  string      `yaml:"restartPolicy"`
				LeaderTemplate podTemplate `yaml:"leaderTemplate"`
				WorkerTemplate podTemplate `yaml:"workerTemplate"`
			} `yaml:"leaderWorkerTemplate"`
		}
	}
	strictly(t, dir+"leaderworkerset.yaml", &group)
	of := group.Spec.LeaderWorkerTemplate
	if of.Size < 2 || of.RestartPolicy != "RecreateGroupOnPodRestart" || group.Spec.StartupPolicy != "LeaderCreated" {
		t.Errorf("size %d, %q, %q: all start together, and again together", of.Size, of.RestartPolicy, group.Spec.StartupPolicy)
	}
	serve, rank := newServeCommand().Flags(), newRankCommand().Flags()
	leader := isCommand(t, "the leader", "serve", serve, of.LeaderTemplate.Spec.Containers[0].Args)
	worker := isCommand(t, "a worker", "rank", rank, of.WorkerTemplate.Spec.Containers[0].Args)
	if leader["ranks"] != "lws" || worker["join"] != "lws" {
		t.Errorf("the leader has %v, workers %v", leader, worker)
	}
	for _, same := range []string{"model", "rank-token-file"} {
		if leader[same] == "" || leader[same] != worker[same] {
			t.Errorf("--%s %q, and of workers %q", same, leader[same], worker[same])
		}
	}
	label := of.LeaderTemplate.Metadata.Labels["app.kubernetes.io/name"]
	for name, pod := range map[string]podTemplate{"leader": of.LeaderTemplate, "worker": of.WorkerTemplate} {
		c := pod.Spec.Containers[0]
		apart := pod.Spec.Affinity.PodAntiAffinity.Required
		if pod.Metadata.Labels["app.kubernetes.io/name"] != label || len(apart) != 1 || apart[0].TopologyKey != "kubernetes.io/hostname" ||
			apart[0].LabelSelector.MatchLabels["app.kubernetes.io/name"] != label {
			t.Errorf("%s: may be on the node of another", name)
		}
		if !pod.Spec.SecurityContext.RunAsNonRoot || !c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.AllowPrivilegeEscalation ||
			!slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) || pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: may do more than it needs", name)
		}
		if c.Resources.Limits["memory"] == "" || c.Resources.Limits["memory"] != c.Resources.Requests["memory"] {
			t.Errorf("%s: memory %v", name, c.Resources)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || !m.ReadOnly {
				t.Errorf("%s: %+v", name, m)
			}
			delete(volumes, m.Name)
		}
		if len(volumes) > 0 {
			t.Errorf("%s: volumes that nothing reads: %v", name, volumes)
		}
	}

	var listed []string
	for _, name := range at(t, documents(t, dir+"kustomization.yaml")[0], "resources").([]any) {
		listed = append(listed, name.(string))
	}
	if want := []string{"leaderworkerset.yaml", "service.yaml", "networkpolicy.yaml"}; !slices.Equal(listed, want) {
		t.Errorf("the kustomization has %q, want %q", listed, want)
	}
	first := map[string]any{"app.kubernetes.io/name": label, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
	selects := func(what string, selector any, want map[string]any) {
		t.Helper()
		got, _ := selector.(map[string]any)
		if len(got) != len(want) {
			t.Errorf("%s selects %v, want %v", what, got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s selects %v, want %v", what, got, want)
			}
		}
	}
	all := map[string]any{"app.kubernetes.io/name": label}
	selects("the service", at(t, documents(t, dir+"service.yaml")[0], "spec", "selector"), first)
	policies := documents(t, dir+"networkpolicy.yaml")
	ranks, clients := policies[0], policies[1]
	selects("the policy of ranks", at(t, ranks, "spec", "podSelector", "matchLabels"), all)
	selects("their peers", at(t, ranks, "spec", "ingress", 0, "from", 0, "podSelector", "matchLabels"), all)
	selects("whom they reach", at(t, ranks, "spec", "egress", 0, "to", 0, "podSelector", "matchLabels"), all)
	selects("the policy of clients", at(t, clients, "spec", "podSelector", "matchLabels"), first)
	if n := len(at(t, ranks, "spec", "policyTypes").([]any)); n != 2 {
		t.Errorf("the policy of ranks has %d directions", n)
	}
	for _, patch := range listOf(t, dir+"rdma.yaml") { // of a place that is there, but for its last word
		path := strings.Split(at(t, patch, "path").(string), "/")[1:]
		var v any = documents(t, dir+"leaderworkerset.yaml")[0]
		for _, word := range path[:len(path)-1] {
			if word == "0" {
				v = at(t, v, 0)
			} else {
				v = at(t, v, word)
			}
		}
		if _, ok := v.(map[string]any); !ok {
			t.Errorf("a patch of %v", path)
		}
	}
}

func listOf(t *testing.T, path string) (all []any) {
	t.Helper()
	strictly(t, path, &all)
	return all
}

// The units of rank 0 and of the others.
func TestUnitsOfRanks(t *testing.T) {
	setting := regexp.MustCompile(`^(#.*|\[[A-Z]\w+\]|[A-Z]\w+=.*|)$`)
	for file, command := range map[string]string{"quern-cluster.service": "serve", "quern-rank.service": "rank"} {
		unit, err := os.ReadFile(deployed + file)
		if err != nil {
			t.Fatal(err)
		}
		fs := newServeCommand().Flags()
		if command == "rank" {
			fs = newRankCommand().Flags()
		}
		lines := strings.Split(strings.ReplaceAll(string(unit), "\\\n", " "), "\n")
		for _, line := range lines {
			if !setting.MatchString(line) {
				t.Errorf("%s: %q", file, line)
			}
			if words, ok := strings.CutPrefix(line, "ExecStart=/usr/local/bin/quern-cluster "); ok {
				isCommand(t, file, command, fs, strings.Fields(words))
			}
			if name, ok := strings.CutPrefix(line, "#	QUERN_"); ok { // a flag as a variable
				name, _, _ = strings.Cut(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "=")
				if fs.Lookup(name) == nil {
					t.Errorf("%s: %s has no --%s", file, command, name)
				}
			}
		}
		for _, want := range []string{"Restart=always", "LoadCredential=token:/etc/quern/rank-token", "StartLimitIntervalSec=0", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK"} {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no %s", file, want)
			}
		}
	}
}
