"""Files that go in and come out: recordings, the folder of a run, the report with its 3-D player."""

from sim.io.player import COLORS as COLORS
from sim.io.player import Layer as Layer
from sim.io.player import Shape as Shape
from sim.io.player import Take as Take
from sim.io.recording import Recording as Recording
from sim.io.recording import RecordingError as RecordingError
from sim.io.recording_files import load_recording as load_recording
from sim.io.recording_files import write_recording as write_recording
from sim.io.report import Curve as Curve
from sim.io.report import ExpectationRow as ExpectationRow
from sim.io.report import ExperimentRow as ExperimentRow
from sim.io.report import ParameterRow as ParameterRow
from sim.io.report import ReportData as ReportData
from sim.io.report import TermRow as TermRow
from sim.io.report import write_report as write_report
from sim.io.report_fit import Correlation as Correlation
from sim.io.report_fit import ResidualRow as ResidualRow
from sim.io.run_folder import RunFolder as RunFolder
from sim.io.run_folder import RunFolderError as RunFolderError
from sim.io.run_folder import default_run_path as default_run_path
from sim.io.run_folder import environment as environment
from sim.io.run_folder import to_json as to_json
from sim.io.run_folder import write_atomically as write_atomically
