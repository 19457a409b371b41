// Reads a compose file as docker compose does, by its own library: unknown keys, wrong types and names that lead nowhere are refused.
// Then it holds the sidecar to what its image promises. Usage: compose FILE.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

var faults int

func want(good bool, what string) {
	if !good {
		fmt.Printf("%s:1: queue-sidecar: %s\n", os.Args[1], what)
		faults++
	}
}

func sidecar(service types.ServiceConfig, directory string) {
	want(service.ReadOnly, "the root is not read-only")
	want(slices.Equal(service.CapDrop, []string{"ALL"}) && len(service.CapAdd) == 0, "it has capabilities")
	want(slices.Contains(service.SecurityOpt, "no-new-privileges:true"), "it may gain privileges")
	want(service.User == "65532:65532", "it does not run as 65532:65532")
	want(!service.Privileged && service.NetworkMode == "" && service.Pid == "" && service.Ipc == "", "it shares with the host")
	want(service.MemLimit > 0 && service.PidsLimit > 0, "it has no limits")
	want(service.Restart == "unless-stopped", "it is not started again")
	want(len(service.Ports) == 0, "it publishes a port")
	want(service.HealthCheck != nil && slices.Equal(service.HealthCheck.Test, []string{"CMD", "/usr/bin/queue-sidecar", "healthcheck"}),
		"its health is not asked by healthcheck")
	mounts := map[string]types.ServiceVolumeConfig{}
	for _, volume := range service.Volumes {
		mounts[volume.Target] = volume
	}
	config := mounts["/etc/queue-sidecar"]
	found, err := os.Stat(config.Source)
	want(config.Type == "bind" && config.ReadOnly && err == nil && found.IsDir(), "its config is not a directory, mounted read-only")
	want(filepath.Dir(config.Source) == directory, "its config is not beside the compose file")
	want(mounts["/var/lib/queue-sidecar"].Type == "volume", "its audit log is in no volume")
	want(len(mounts) == 2, "it mounts more than config and audit log")
}

func main() {
	path, _ := filepath.Abs(os.Args[1])
	options, err := cli.NewProjectOptions([]string{path})
	if err == nil {
		var project *types.Project
		project, err = options.LoadProject(context.Background())
		if err == nil {
			service, missing := project.GetService("queue-sidecar")
			want(missing == nil, "there is no such service")
			sidecar(service, filepath.Dir(path))
		}
	}
	if err != nil {
		fmt.Printf("%s:1: %v\n", os.Args[1], err)
		faults++
	}
	if faults > 0 {
		os.Exit(1)
	}
}
