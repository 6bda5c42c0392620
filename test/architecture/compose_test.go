package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Everything that docker-compose.yml mounts from here is here, every service
// that is depended on exists, one service builds our image, and no service may
// gain rights, or fill the disk with its log or the machine with its memory.
func TestComposeFile_MountsWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image     string
			Build     any
			Volumes   []string
			DependsOn any      `yaml:"depends_on"`
			MemLimit  string   `yaml:"mem_limit"`
			Security  []string `yaml:"security_opt"`
			Logging   struct{ Options map[string]string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	builds := 0
	for name, s := range file.Services {
		if s.Build != nil {
			builds++
		}
		if s.Image == "" || s.MemLimit == "" || len(s.Security) == 0 || s.Logging.Options["max-size"] == "" {
			t.Errorf("%s has no image, or no bound on memory, rights or log: %+v", name, s)
		}
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join(root, from)); err != nil {
					t.Errorf("%s mounts %s: %v", name, from, err)
				}
			}
		}
		for _, needed := range names(s.DependsOn) {
			if file.Services[needed].Image == "" {
				t.Errorf("%s depends on %s, which is no service", name, needed)
			}
		}
	}
	if builds != 1 {
		t.Errorf("%d services build the image, want 1", builds)
	}
	for _, path := range regexp.MustCompile(`/files/[\w./-]+\.\w+`).FindAllString(string(text), -1) {
		if _, err := os.Stat(filepath.Join(root, "deploy", strings.TrimPrefix(path, "/files/"))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// names returns the strings of a list, or the keys of a map.
func names(v any) (list []string) {
	switch v := v.(type) {
	case []any:
		for _, name := range v {
			list = append(list, name.(string))
		}
	case map[string]any:
		for name := range v {
			list = append(list, name)
		}
	}
	return list
}

// The client that users have takes the file, with and without the profile.
func TestComposeFile_IsAcceptedByDocker(t *testing.T) {
	t.Parallel()
	if exec.CommandContext(t.Context(), "docker", "compose", "version").Run() != nil {
		t.Skip("there is no docker compose")
	}
	for _, profile := range []string{"", "metrics"} {
		cmd := exec.CommandContext(t.Context(), "docker", "compose", "--profile", profile, "config", "--quiet")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("profile %q: %v %s", profile, err, out)
		}
	}
}
