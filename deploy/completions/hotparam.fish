function __complete_hotparam
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    hotparam
end
complete -f -c hotparam -a "(__complete_hotparam)"
